#!/usr/bin/env python3
"""Trains an inliner with PPO of stable-baselines3: every episode is one compile by a real clang.

    pip install 'pymlgo[gym]' stable-baselines3
    python examples/stable_baselines3_ppo.py CORPUS [--steps 20000] [--seed 1] [-o MODEL.zip]

What PPO knows is in the weights it writes; `mlgo train` makes policies that a compiler can load. The corpus is used
both to learn and to judge, so what is printed says that learning works, and nothing about other programs.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box
from gymnasium.wrappers import FlattenObservation, TransformObservation
from stable_baselines3 import PPO

import pymlgo.env  # noqa: F401 — makes pymlgo/Inlining-v0 known
from pymlgo.errors import CorpusError


def environment(corpus: Path) -> gymnasium.Env:
    """Compiles of the corpus; observations are f32[n], features in one row and on a logarithmic scale."""
    flat = FlattenObservation(gymnasium.make("pymlgo/Inlining-v0", corpus=str(corpus)))
    space = Box(-np.inf, np.inf, flat.observation_space.shape, np.float32)
    return TransformObservation(flat, scaled, space)


def scaled(features: np.ndarray) -> np.ndarray:
    """Counts from 0 to 10^9 as numbers that a network can take."""
    return (np.sign(features) * np.log1p(np.abs(features)) / 4).astype(np.float32)


def change_percent(model: PPO, env: gymnasium.Env) -> float:
    """How the model's decisions change the .text of all modules together, against LLVM's default."""
    default = cost = 0.0
    for module in env.unwrapped.modules:
        try:
            observation, info = env.reset(options={"module": module.name})
        except CorpusError:
            continue  # nothing is asked there
        ended = False
        while not ended:
            action, _ = model.predict(observation, deterministic=True)
            observation, _, terminated, truncated, info = env.step(int(action))
            ended = terminated or truncated
        if "cost" in info:
            default += info["default_cost"]
            cost += info["cost"]
    return 100 * (cost - default) / default


def main() -> None:
    """Train, and say what changed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # the network is small, and the compiler needs a core
    env = environment(arguments.corpus)
    # The reward comes once, at the end of an episode: no discount, or early decisions would learn nothing.
    model = PPO(
        "MlpPolicy", env, n_steps=512, batch_size=128, gamma=1.0, gae_lambda=1.0, seed=arguments.seed, device="cpu"
    )
    before = change_percent(model, env)
    model.learn(arguments.steps)
    after = change_percent(model, env)
    env.close()
    if arguments.output:
        model.save(arguments.output)
    print(f".text against LLVM's default: {before:+.2f} % before, {after:+.2f} % after {arguments.steps} decisions")


if __name__ == "__main__":
    main()
