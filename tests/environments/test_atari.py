import numpy as np
import pytest

from mrq.environments import atari
from mrq.environments.making import make_environment
from mrq.environments.spaces import Translator
from mrq.errors import MRQError


def trajectory(environment, seed, steps):
    """Returns frames and rewards; the actions do not depend on the seed."""
    frames, rewards = [environment.reset(seed=seed)[0]], []
    for action in np.random.default_rng(0).integers(environment.action_space.n, size=steps):
        frame, reward, *_ = environment.step(action)
        frames.append(frame)
        rewards.append(reward)
    return np.stack(frames), rewards


def area_weights(size, smaller):
    """Returns how much of each pixel belongs to each of fewer, larger pixels (smaller, size)."""
    edges = np.arange(smaller + 1) * size / smaller
    pixels = np.arange(size)
    overlap = np.minimum(edges[1:, None], pixels + 1) - np.maximum(edges[:-1, None], pixels)
    return overlap.clip(0) * smaller / size


@pytest.mark.parametrize(
    ("name", "rom"), [("Pong", "pong"), ("MsPacman", "ms_pacman"), ("SpaceInvaders", "space_invaders")]
)
def test_the_same_frames_and_rewards_as_the_bare_emulator(name, rom):
    """Checks sticky actions, one frame skip, the maximum of the last two frames, area resizing, unclipped rewards,
    the minimal action set, and that no frames pass before the first action."""
    import ale_py
    from ale_py import roms

    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    emulator = ale_py.ALEInterface()
    emulator.setInt("random_seed", 11)
    emulator.setFloat("repeat_action_probability", 0.25)
    emulator.loadROM(roms.get_rom_path(rom))
    emulator.reset_game()
    theirs = emulator.getMinimalActionSet()
    rows, columns = area_weights(210, 84), area_weights(160, 84)

    environment = make_environment(f"atari/{name}")
    assert environment.action_space.n == len(theirs)
    frame, _ = environment.reset(seed=11)
    screens, rewards = [emulator.getScreenGrayscale()] * 2, []
    for action in np.random.default_rng(0).integers(len(theirs), size=150):
        expected = rows @ np.maximum(screens[-1], screens[-2]) @ columns.T
        assert np.abs(frame - expected).max() <= 1  # rounding
        reward = 0
        for _ in range(4):
            reward += emulator.act(theirs[action])
            screens.append(emulator.getScreenGrayscale())
        frame, given, terminated, truncated, _ = environment.step(action)
        assert (given, terminated, truncated) == (reward, False, False)
        rewards.append(reward)
    assert name == "Pong" or max(rewards) > 1


def test_an_episode_is_a_function_of_its_seed():
    used, fresh = make_environment("atari/Breakout"), make_environment("atari/Breakout")
    assert Translator(used.observation_space, used.action_space).spec.state_shape == (4, 84, 84)
    trajectory(used, 1, 50)
    frames, rewards = trajectory(fresh, 3, 100)
    assert frames.shape == (101, 84, 84)
    assert frames.dtype == np.uint8
    again, rewards_again = trajectory(used, 3, 100)
    np.testing.assert_array_equal(again, frames)
    assert rewards == rewards_again
    assert not np.array_equal(trajectory(used, 4, 100)[0], frames)  # sticky actions


def test_a_lost_life_ends_nothing_and_a_lost_game_does():
    environment = make_environment("atari/Breakout")
    for _ in range(2):
        environment.reset(seed=0)
        lives, ended = [], False
        while not ended:
            frame, _, ended, truncated, _ = environment.step(1)  # FIRE brings the next ball
            lives.append(int(frame[:8, 40:].sum()))
            assert not truncated
        assert len(lives) > 50  # five balls, not one
        assert len(set(lives)) >= 4
    frame, _ = environment.reset(seed=0)
    fresh, _ = make_environment("atari/Breakout").reset(seed=0)
    np.testing.assert_array_equal(frame, fresh)
    assert environment.step(0)[2:4] == (False, False)


def test_truncation(monkeypatch):
    assert atari.EPISODE_FRAMES == 108_000
    monkeypatch.setattr(atari, "EPISODE_FRAMES", 40)
    environment = make_environment("atari/Pong")
    for _ in range(2):
        environment.reset(seed=0)
        flags = [environment.step(0)[2:4] for _ in range(10)]
        assert flags == [(False, False)] * 9 + [(False, True)]


def test_without_a_seed_or_with_a_large_one():
    environment = make_environment("atari/Pong")
    environment.reset()
    assert environment.step(environment.action_space.sample())[0].shape == (84, 84)
    environment.reset(seed=2**40)


def test_rendering_for_a_video():
    environment = make_environment("atari/Pong", render_mode="rgb_array")
    frame, _ = environment.reset(seed=0)
    picture = environment.render()
    assert picture.shape == (420, 336, 3)
    assert picture.dtype == np.uint8
    np.testing.assert_array_equal(picture[::5, ::4, 1], frame)
    np.testing.assert_array_equal(picture[4::5, 3::4, 2], frame)
    assert environment.metadata["render_fps"] == 15


def test_roms_that_cannot_be_read_are_refused_with_advice(monkeypatch, tmp_path):
    monkeypatch.setenv("ALE_ROMS_DIR", str(tmp_path))
    with pytest.raises(MRQError, match=r"ROM cannot be read: .*pong\.bin'; unset ALE_ROMS_DIR\.$"):
        make_environment("atari/Pong")
    monkeypatch.delenv("ALE_ROMS_DIR")

    def damaged(rom):
        raise OSError(f"The hash of {rom}.bin is another")

    monkeypatch.setattr("ale_py.roms.get_rom_path", damaged)
    with pytest.raises(MRQError, match=r"hash of pong\.bin is another; run: pip install --force-reinstall ale-py$"):
        make_environment("atari/Pong")
