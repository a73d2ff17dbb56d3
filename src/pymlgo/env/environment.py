"""Compiles as gymnasium environments: an episode is one compile of one module by a real clang."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from pymlgo.arrays import AnyArray, BoolArray
from pymlgo.channel import Limits
from pymlgo.corpus.description import Module, read_corpus
from pymlgo.corpus.object_file import ObjectError
from pymlgo.env.cost import Cost
from pymlgo.env.episode import Episode, default_cost
from pymlgo.errors import ChannelError, CorpusError, MissingDependency, SpecError
from pymlgo.optional import need
from pymlgo.problem import Problem, problem_named
from pymlgo.tensor_spec import TensorSpec
from pymlgo.toolchain.llvm import find_llvm
from pymlgo.training_log.header import Header


def _gymnasium() -> Any:
    return need("gymnasium", extra="gym", purpose="make environments of compiles")


_Env: Any = object  # the package imports without its extras; who makes an environment without them is told
_ActionWrapper: Any = object
with contextlib.suppress(MissingDependency):
    _Env, _ActionWrapper = _gymnasium().Env, _gymnasium().ActionWrapper

Features: TypeAlias = dict[str, AnyArray]
Info: TypeAlias = dict[str, object]

AGENT_LIMITS = Limits(compile_s=24 * 3600)
"""An episode may stand while the agent learns from the ones before; what the compiler itself may take is unchanged."""


class CompileEnv(_Env):  # type: ignore[misc]
    """An environment in which the compiler asks and the action is the advice.

    The observation is what the compiler says of the decision: its features by name, as its header describes them. The
    reward is 0 until the compile has ended, and then the share of LLVM's own cost that was saved: of the bytes of code
    for inlining, of the weighted spills, reloads and copies for the register allocator. It is below 0 where LLVM does
    better by itself.

    An episode that the compiler does not finish (it crashed, or passed a time limit) is truncated, with reward 0 and
    the reason in `info["failure"]`. An action that the compiler must not get is an error, and the decision stays open.

    `info` has the `module`, the `context` and the number of the `decision` in it; after the last decision also `cost`
    and `default_cost`, and the digests `object_sha256` and `default_object_sha256`.

    Attributes:
        problem: what the compiler asks about.
        modules: what is compiled.
    """

    metadata: Mapping[str, object] = {"render_modes": []}

    def __init__(
        self,
        problem: str,
        corpus: Path | str | Sequence[Module],
        *,
        clang: Path | str | None = None,
        limits: Limits = AGENT_LIMITS,
        render_mode: None = None,
    ) -> None:
        """Compile the modules of `corpus`.

        Args:
            problem: "inlining", "eviction" or "priority".
            corpus: a corpus's folder, or modules.
            clang: the compiler, by default the newest LLVM's.
            limits: how long the compiler may take.
            render_mode: there is nothing to see.

        Raises:
            CorpusError: in no module the compiler asks.
            MissingDependency: gymnasium is not installed.
        """
        spaces = _gymnasium().spaces
        self.problem: Problem = problem_named(problem)
        self.modules: tuple[Module, ...] = (
            read_corpus(corpus).modules if isinstance(corpus, str | Path) else tuple(corpus)
        )
        self.render_mode = render_mode
        self._llvm = find_llvm(clang=clang)
        self._limits = limits
        self._unusable: dict[str, str] = {}
        self._defaults: dict[str, Cost] = {}
        self._episode: Episode | None = None
        self._open = ExitStack()
        weakref.finalize(self, self._open.close)  # an environment that nobody closes leaves no compiler behind
        self._seen: Mapping[str, AnyArray] = {}
        header = self._first_header()
        self._advice: TensorSpec = header.advice or self.problem.advice
        self.observation_space = spaces.Dict({spec.name: _box(spaces, spec) for spec in header.features})
        self.action_space = _action_space(spaces, self.problem, header)

    def reset(self, *, seed: int | None = None, options: Mapping[str, object] | None = None) -> tuple[Features, Info]:
        """Begin a compile, and go to its first decision.

        Args:
            seed: of the draw of modules.
            options: `{"module": NAME}` names the module; without it, it is drawn.

        Raises:
            CorpusError: there is no module of this name, the compiler asks nothing there, or does not compile it; or
                none of the modules is left to draw.
        """
        super().reset(seed=seed)
        self.close()
        wanted = (options or {}).get("module")
        if wanted is None:
            self._begin_drawn()
        else:
            self._begin(self._named(str(wanted)))
        return self._observed(), self._info()

    def step(self, action: object) -> tuple[Features, float, bool, bool, Info]:
        """Give the advice `action`: observation, reward, terminated, truncated, info.

        Raises:
            SpecError: the compiler must not get this advice now; it waits for another.
            ChannelError: no episode runs.
        """
        episode = self._running()
        advice = self._checked(action)
        info = self._info()
        try:
            episode.answer(advice)
            if episode.observation is not None:
                return self._observed(), 0.0, False, False, self._info()
            cost = episode.cost()
        except (ChannelError, ObjectError) as error:
            self.close()
            return self._last(), 0.0, False, True, {**info, "failure": str(error)}
        default = self._defaults[episode.module.name]
        self.close()
        reward = (default.value - cost.value) / max(default.value, 1.0)
        return self._last(), reward, True, False, {**info, **_costs(cost, default)}

    def action_masks(self) -> BoolArray:
        """bool[n], which of a discrete action's n values the compiler may get now; the name is that of sb3-contrib."""
        observation = self._running().observation
        mask = observation.features.get("mask") if observation and self.problem.name == "eviction" else None
        return np.ones(int(self.action_space.n), np.bool_) if mask is None else mask.reshape(-1) != 0

    def close(self) -> None:
        """End the compiler; the next `reset` starts another."""
        self._episode = None
        self._open.close()

    def _begin_drawn(self) -> None:
        while True:
            # Unusable modules stay in the draw: what a seed gives must not depend on what was seen before.
            module = self.modules[int(self.np_random.integers(len(self.modules)))]
            try:
                return self._begin(module)
            except CorpusError:
                if all(each.name in self._unusable for each in self.modules):
                    raise

    def _begin(self, module: Module) -> None:
        """Begin the compile of `module`, or say why there is no episode in it."""
        why = self._unusable.get(module.name)
        if why is None:
            try:
                if self._begun(module):
                    return
                why = f"the compiler asks nothing about {self.problem.name} in the module {module.name!r}"
            except (ChannelError, CorpusError, ObjectError) as error:
                why = f"the module {module.name!r} does not compile: {error}"
            self._unusable[module.name] = why
        raise CorpusError(why)

    def _begun(self, module: Module) -> bool:
        if module.name not in self._defaults:
            self._defaults[module.name] = default_cost(module, self.problem, self._llvm)
        episode = Episode(module, self.problem, self._llvm, self._limits)
        if episode.observation is None:
            episode.close()
            return False
        self._episode = self._open.enter_context(contextlib.closing(episode))
        return True

    def _first_header(self) -> Header:
        for module in self.modules:
            episode = Episode(module, self.problem, self._llvm, self._limits)
            asked, header = episode.observation is not None, episode.header
            episode.close()
            if asked and header is not None:
                return header
        raise CorpusError(f"the compiler asks nothing about {self.problem.name} in any of {len(self.modules)} modules")

    def _named(self, name: str) -> Module:
        found = next((each for each in self.modules if each.name == name), None)
        if found is None:
            raise CorpusError(f"there is no module {name!r}", hint="env.unwrapped.modules lists them")
        return found

    def _running(self) -> Episode:
        if self._episode is None:
            raise ChannelError("no episode runs: call reset()")
        return self._episode

    def _observed(self) -> Features:
        observation = self._running().observation
        if observation is not None:
            self._seen = observation.snapshot()
        return self._last()

    def _last(self) -> Features:
        """The features of the last decision, for the caller to keep; an ended compile has no others."""
        return {name: each.copy() for name, each in self._seen.items()}

    def _checked(self, action: object) -> AnyArray:
        if not self.action_space.contains(action):
            raise SpecError(f"{action!r} is no action of {self.action_space}")
        advice = np.asarray(action, self._advice.dtype).reshape(self._advice.shape)
        observation = self._running().observation
        refusal = observation and self.problem.check_advice(observation.features, advice)
        if refusal:
            raise SpecError(refusal, hint="env.unwrapped.action_masks() says what is allowed")
        return advice

    def _info(self) -> Info:
        episode = self._running()
        observation = episode.observation
        where = {"context": observation.context, "decision": observation.number} if observation else {}
        return {"module": episode.module.name, **where}


class AllowedActions(_ActionWrapper):  # type: ignore[misc]
    """An environment for agents that know no mask: an action that is not allowed stands for the next one that is."""

    def action(self, action: int) -> int:
        """The first allowed action from `action` on, counted around."""
        allowed = np.roll(self.env.unwrapped.action_masks(), -int(action))
        return (int(action) + int(allowed.argmax())) % len(allowed)


def eviction_env(**arguments: Any) -> AllowedActions:
    """`CompileEnv` for eviction, whose every action is allowed; `unwrapped` is strict."""
    return AllowedActions(CompileEnv("eviction", **arguments))


def register() -> None:
    """Make `pymlgo/Inlining-v0`, `pymlgo/Eviction-v0` and `pymlgo/Priority-v0` known to gymnasium."""
    register_one = _gymnasium().register
    register_one("pymlgo/Inlining-v0", "pymlgo.env.environment:CompileEnv", kwargs={"problem": "inlining"})
    register_one("pymlgo/Eviction-v0", "pymlgo.env.environment:eviction_env")
    register_one("pymlgo/Priority-v0", "pymlgo.env.environment:CompileEnv", kwargs={"problem": "priority"})


def _box(spaces: Any, spec: TensorSpec) -> Any:
    return spaces.Box(low=-np.inf, high=np.inf, shape=spec.shape, dtype=spec.dtype)


def _action_space(spaces: Any, problem: Problem, header: Header) -> Any:
    match problem.name:
        case "inlining":
            return spaces.Discrete(2)
        case "eviction":
            mask = next(spec for spec in header.features if spec.name == "mask")
            return spaces.Discrete(mask.element_count)
        case _:
            largest = np.nextafter(np.float32(2**32), np.float32(0))
            return spaces.Box(low=0.0, high=largest, shape=problem.advice.shape, dtype=np.float32)


def _costs(cost: Cost, default: Cost) -> Info:
    return {
        "cost": cost.value,
        "default_cost": default.value,
        "object_sha256": cost.object_sha256,
        "default_object_sha256": default.object_sha256,
    }
