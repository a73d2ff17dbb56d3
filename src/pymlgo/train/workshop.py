"""What every algorithm works with: compiles that are counted, and judgement by projects not learned from."""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pymlgo.corpus.description import Module
from pymlgo.corpus.names import project_of
from pymlgo.errors import CorpusError
from pymlgo.policy.policy import Policy
from pymlgo.policy.shapes import InliningRule
from pymlgo.progress import Advance, Note
from pymlgo.rollout import Backend, Executor, Job, Outcome, RolloutFailure, RolloutResult
from pymlgo.train.budget import Budget
from pymlgo.train.validation import Validation

Event: TypeAlias = dict[str, object]
"""Facts for the log of events, of which "event" is the kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What the validation projects said about one policy.

    Attributes:
        round: in which it was made, from 0.
        compiles, cpu_s: of the run, when it had been judged.
        text_change_percent, berkeley_change_percent: against LLVM's default.
        projects: change of .text in per cent, by project.
        failed: validation modules that did not compile with it, or not without it.
        details: what its algorithm tells about it.
    """

    round: int
    compiles: int = field(compare=False)  # what is equal may have cost more: a resumed run repeats a base sweep
    cpu_s: float = field(compare=False)
    text_change_percent: float
    berkeley_change_percent: float
    projects: Mapping[str, float]
    failed: int
    details: Mapping[str, object]


class Workshop:
    """Compiles for an algorithm, and the best policy so far.

    Attributes:
        start: the policy that the run starts from; None for LLVM's default.
        judged: every policy that was judged, in order.
        best: the policy that was judged best; None while LLVM's default is.
        best_number: its place in `judged`, counted from 1; 0 for LLVM's default.
        failures: compiles without an object, by reason.
        cut_short: True once the time budget took something away from the plan.
        judging_s: wall seconds that compiling the validation modules took once.
    """

    def __init__(
        self,
        *,
        executor: Executor,
        backend: Backend,
        validation: Validation,
        budget: Budget,
        start: Policy | None = None,
        shown: tuple[Advance, Note] = ((lambda steps: None), (lambda text: None)),
    ) -> None:
        self._executor = executor
        self._backend = backend
        self._validation = validation
        self._advance, self._note = shown
        self.budget = budget
        self.start = start
        self.judged: list[Judged] = []
        self.best: Policy | None = None
        self.best_number = 0
        self.failures: Counter[str] = Counter()
        self.cut_short = False
        self.judging_s = 0.0

    def begin(self) -> Iterator[Event]:
        """Compile the validation modules without a policy, and with the one that the run starts from.

        Raises:
            CorpusError: none of them compiles.
        """
        started = time.monotonic()
        self._validation.measure_defaults(self._spend)
        self.judging_s = time.monotonic() - started
        if not self._validation.defaults:
            raise CorpusError(
                f"none of {len(self._validation.modules)} validation modules compiled (failed: {dict(self.failures)})",
                hint="`mlgo doctor` checks the compiler; is the corpus for this LLVM?",
            )
        yield {"event": "defaults", "modules": len(self._validation.defaults)}
        if self.start is not None and not self.judged:
            yield self.judge(self.start, round=0, start=True)

    def note(self, text: str) -> None:
        """Show what is going on, and the best so far, beside the progress bar."""
        self._note(f"{text}; best {self.best_change_percent:+.2f} %" if self.judged else text)

    def compile(self, jobs: Iterable[Job]) -> Iterator[tuple[int, Outcome]]:
        """Each job's number and outcome, as they finish; leaving early stops what is still running."""
        for number, outcome in self._executor.run(self._backend, jobs):
            self._spend(outcome)
            yield number, outcome

    def record(
        self, modules: Sequence[Module], policy: Policy | None, *, names: bool = False
    ) -> dict[int, RolloutResult]:
        """A recorded compile of each module under `policy`, by number; modules without a decision are left out.

        A time budget cuts it short once half of the time is gone.

        Raises:
            CorpusError: no module compiled with a decision to make.
        """
        found: dict[int, RolloutResult] = {}
        jobs = [Job(module=module, policy=policy, record=True, names=names) for module in modules]
        for number, outcome in self.compile(jobs):
            if isinstance(outcome, RolloutResult) and outcome.decisions:
                found[number] = outcome
            if found and self.is_late(0.5):
                break
        if not found:
            raise CorpusError(
                f"none of {len(modules)} training modules compiled with a decision to make"
                + (f" (failed: {dict(self.failures)})" if self.failures else ""),
                hint="inlining needs modules with calls, compiled from bitcode that was not optimized yet",
            )
        return dict(sorted(found.items()))

    def judge(
        self, policy: Policy, *, round: int, of_projects: Mapping[str, Policy] | None = None, **details: object
    ) -> Event:
        """Compile the validation modules with `policy`, and keep it if it is the best so far.

        Args:
            policy: the candidate.
            round: in which it was made.
            of_projects: in cross-validation, the policy that stands for the candidate on each project.
            details: for `Judged.details`.
        """
        modules = self._validation.modules
        self.note(f"judging a candidate on {len(modules)} modules")
        everywhere = dict.fromkeys((project_of(module.name) for module in modules), policy)
        found = self._validation.measure(of_projects or everywhere, self._spend)
        judged = Judged(
            round=round,
            compiles=self.budget.compiles,
            cpu_s=self.budget.cpu_s,
            text_change_percent=found.text_change_percent,
            berkeley_change_percent=found.berkeley_change_percent,
            projects=found.projects,
            failed=found.failed,
            details=details,
        )
        is_first = self.start is not None and not self.judged
        is_best = is_first or (found.modules > 0 and found.text_change_percent < self.best_change_percent)
        self.judged.append(judged)
        if is_best:
            self.best, self.best_number = policy, len(self.judged)
        facts = dataclasses.asdict(judged)
        return {"event": "best" if is_best else "candidate", **facts.pop("details"), **facts}

    def rule(self, margin: float) -> InliningRule:
        """How a candidate decides by its scores: where they do not exceed `margin`, as LLVM would."""
        if self.start is None:
            return InliningRule(margin=margin, default="inlining_default")
        # What another start led to must stand on its own: LLVM's default would hide what was not learned.
        return InliningRule()

    @property
    def best_judged(self) -> Judged | None:
        """What was said about `best`."""
        return self.judged[self.best_number - 1] if self.best_number else None

    @property
    def best_change_percent(self) -> float:
        """Change of .text that a better candidate has to undercut."""
        return self.best_judged.text_change_percent if self.best_judged else 0.0

    @property
    def fell_back(self) -> bool:
        """True while nothing is better than what the run started from."""
        return self.best_number <= (self.start is not None)

    def is_late(self, share: float, reserve_s: float = 0.0) -> bool:
        """True when more than `share` of the time, less `reserve_s`, is gone; never without a time budget."""
        late = self.budget.is_late(share, reserve_s)
        self.cut_short = self.cut_short or late
        return late

    def facts(self) -> dict[str, Any]:
        """What a checkpoint keeps, as JSON; the best policy is kept by its number."""
        return {
            "compiles": self.budget.compiles,
            "cpu_s": self.budget.cpu_s,
            "elapsed_s": self.budget.elapsed_s,
            "judged": [dataclasses.asdict(each) for each in self.judged],
            "best": self.best_number,
        }

    def restore(self, facts: Mapping[str, Any], best: Policy | None) -> None:
        """Go on from `facts`, with the policy that was the best then."""
        self.budget.compiles, self.budget.cpu_s = facts["compiles"], facts["cpu_s"]
        self.budget.before_s = facts["elapsed_s"]
        self.judged[:] = [Judged(**each) for each in facts["judged"]]
        self.best, self.best_number = best, facts["best"]

    def _spend(self, outcome: Outcome) -> None:
        self.budget.spend(outcome)
        self._advance(1)
        if isinstance(outcome, RolloutFailure):
            self.failures[outcome.reason] += 1
