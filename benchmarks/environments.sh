#!/usr/bin/env bash
# Trains MR.Q, with the paper's hyperparameters, and PPO or DQN, with Stable-Baselines3's, on six environments of other
# packages: what benchmarks/learning.md shows of them. All train at once, so start NVIDIA's Multi-Process Service before
# (nvidia-cuda-mps-control -d): otherwise they take turns on the GPU.
#   benchmarks/environments.sh RUNS [OPTION OF mrq train ...]
set -uo pipefail
runs=$1; shift
options=("$@")
doom=(vizdoom.gymnasium_wrapper:VizdoomBasic-v1 --wrapper 'gymnasium.wrappers:FilterObservation:{"filter_keys": ["screen"]}')
numbers=(minigrid:MiniGrid-DoorKey-5x5-v0 gymnasium_robotics:FetchReach-v4 seals:seals/Sort-v0)

train() {  # name of the log, algorithm, task and its options
    mrq train "${@:3}" --algorithm "$2" --steps 100_000 --evaluate-every 10_000 --runs "$runs/$2" "${options[@]}" \
        > "$runs/$1.log" 2>&1 &
}

mkdir -p "$runs"
train mrq-CarRacing mrq CarRacing-v3 --seeds 0 1
train mrq-VizdoomBasic mrq "${doom[@]}" --seeds 0 1
for task in "${numbers[@]}" LunarLander-v3; do
    train "mrq-${task##*[:/]}" mrq "$task" --seeds 0 1
done
for seed in 0 1; do  # of one process, these algorithms train one seed after the other; small networks need no GPU
    train "ppo-CarRacing-$seed" ppo CarRacing-v3 --seed $seed
    train "ppo-VizdoomBasic-$seed" ppo "${doom[@]}" --seed $seed
    for task in "${numbers[@]}"; do
        train "ppo-${task##*[:/]}-$seed" ppo "$task" --seed $seed --device cpu
    done
    train "dqn-LunarLander-$seed" dqn LunarLander-v3 --seed $seed --device cpu
done
wait
mrq report "$runs" --html "$runs/report.html" --csv "$runs/report.csv"
