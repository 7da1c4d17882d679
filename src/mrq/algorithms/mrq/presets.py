"""The presets of MR.Q: the hyperparameters of the paper, and a set for small machines; see benchmarks/laptop.md."""

from mrq.algorithms.algorithm import DEFAULT_PRESET, Preset

PRESETS = {
    DEFAULT_PRESET: Preset("The hyperparameters of the paper, for a GPU and any task."),
    "small": Preset(
        "For a machine without a GPU and for small tasks: narrow networks, small batches, few random steps.",
        {
            "hidden_width": 128,
            "state_embedding": 128,
            "action_embedding": 64,
            "state_action_embedding": 128,
            "batch_size": 128,
            "random_steps": 1_000,
            "target_period": 100,
        },
        without_gpu="made for machines without a GPU, like this one: 8 to 20 times as many steps/s",
    ),
}
