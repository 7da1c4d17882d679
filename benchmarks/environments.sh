#!/usr/bin/env bash
# Trains MR.Q, with the paper's hyperparameters, and PPO or DQN, with Stable-Baselines3's, on six environments of other
# packages: what benchmarks/learning.md shows of them. All train at once; on an H200 with 16 cores, in half an hour.
#   benchmarks/environments.sh RUNS [OPTION OF mrq train ...]
set -uo pipefail
runs=$1; shift
screen='gymnasium.wrappers:FilterObservation:{"filter_keys": ["screen"]}'

train() {  # algorithm, task and its options
    mrq train "${@:2}" --algorithm "$1" --seeds 0 1 --steps 100_000 --evaluate-every 10_000 --runs "$runs/$1" "${more[@]}" \
        > "$runs/$1-${2##*[:/]}.log" 2>&1 &
}

more=("$@")
mkdir -p "$runs"
for algorithm in mrq ppo; do
    train $algorithm CarRacing-v3
    train $algorithm minigrid:MiniGrid-DoorKey-5x5-v0
    train $algorithm vizdoom.gymnasium_wrapper:VizdoomBasic-v1 --wrapper "$screen"
    train $algorithm gymnasium_robotics:FetchReach-v4
    train $algorithm seals:seals/Sort-v0
done
train mrq LunarLander-v3
train dqn LunarLander-v3
wait
mrq report "$runs" --html "$runs/report.html" --csv "$runs/report.csv"
