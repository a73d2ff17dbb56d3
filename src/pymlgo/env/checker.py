"""What gymnasium's own checker cannot know of a compile."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pymlgo.env.environment import CompileEnv, Features, Info
from pymlgo.errors import ChannelError, SpecError

MOST_STEPS = 200
"""Of the episodes that are compared."""


def check_environment(make: Callable[[], CompileEnv], *, seed: int = 1) -> None:
    """Check an environment over real compiles, as `make` makes it, unwrapped.

    - Equal seeds and actions give equal observations, rewards and ends, in two environments.
    - For inlining: echoing LLVM's default gives exactly the object that it makes by itself, and reward 0.
    - An action that the compiler must not get is refused, and the episode goes on.
    - After `close` a step is an error, and a reset begins anew.

    Raises:
        AssertionError: it does not hold; the message says what.
    """
    first, second = make(), make()
    try:
        _check_determinism(first, second, seed)
        _check_refusal(first, seed)
        _check_close(second, seed)
        if first.problem.default_feature in first.observation_space.spaces:
            _check_echo(first, seed)
    finally:
        first.close()
        second.close()


def _check_determinism(first: CompileEnv, second: CompileEnv, seed: int) -> None:
    seen, again = first.reset(seed=seed), second.reset(seed=seed)
    _require(_same(seen[0], again[0]) and seen[1] == again[1], "a seed gives different first decisions")
    generator = np.random.default_rng(seed)
    for number in range(MOST_STEPS):
        action = _drawn(first, generator)
        step, other = first.step(action), second.step(action)
        _require(_same(step[0], other[0]), f"equal actions give different observations in step {number}")
        _require(step[1:] == other[1:], f"equal actions give different ends of step {number}: {step[1:]}, {other[1:]}")
        if step[2] or step[3]:
            return


def _check_refusal(env: CompileEnv, seed: int) -> None:
    env.reset(seed=seed)
    for action in _wrong_actions(env):
        try:
            env.step(action)
        except SpecError:
            continue
        raise AssertionError(f"the action {action!r} is no advice, and was not refused")
    env.step(_drawn(env, np.random.default_rng(seed)))


def _check_close(env: CompileEnv, seed: int) -> None:
    before, _ = env.reset(seed=seed)
    env.close()
    env.close()
    try:
        env.step(_some_action(env))
    except ChannelError:
        after, _ = env.reset(seed=seed)
        _require(_same(before, after), "a reset after close begins another episode")
        return
    raise AssertionError("a step after close does nothing, and is no error")


def _check_echo(env: CompileEnv, seed: int) -> None:
    observation, info = env.reset(seed=seed)
    terminated, reward = False, 0.0
    while not terminated:
        action = int(observation[env.problem.default_feature or ""].item())
        observation, reward, terminated, truncated, info = env.step(action)
        _require(not truncated, f"an episode with LLVM's default was truncated: {info.get('failure')}")
    _require(_is_default(info), f"LLVM's own decisions gave another object than LLVM: {info}")
    _require(reward == 0, f"LLVM's own decisions gave the reward {reward}")


def _is_default(info: Info) -> bool:
    return info["object_sha256"] == info["default_object_sha256"]


def _drawn(env: CompileEnv, generator: np.random.Generator) -> object:
    if hasattr(env.action_space, "n"):
        return int(generator.choice(np.flatnonzero(env.action_masks())))
    return generator.uniform(0, 1000, env.action_space.shape).astype(env.action_space.dtype)


def _wrong_actions(env: CompileEnv) -> list[object]:
    if not hasattr(env.action_space, "n"):
        return [np.array([value], np.float32) for value in (-1, np.nan, np.inf)]
    return [-1, int(env.action_space.n), "yes", *map(int, np.flatnonzero(~env.action_masks())[:1])]


def _some_action(env: CompileEnv) -> object:
    return 0 if hasattr(env.action_space, "n") else np.zeros(env.action_space.shape, env.action_space.dtype)


def _same(one: Features, other: Features) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name], equal_nan=True) for name in one)


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise AssertionError(message)
