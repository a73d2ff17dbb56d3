"""One training run, whatever its algorithm: what is written while it works, and how it ends."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pymlgo.policy.builder import GraphBuilder
from pymlgo.policy.directory import load_policy, save_policy
from pymlgo.policy.policy import Policy
from pymlgo.policy.shapes import INLINING_ADVICE, INLINING_DEFAULT
from pymlgo.train.algorithm import Algorithm
from pymlgo.train.checkpoint import State, load_state, save_state
from pymlgo.train.run_directory import RunDirectory
from pymlgo.train.workshop import Workshop


@dataclass(slots=True, kw_only=True, eq=False)
class Session:
    """An algorithm at work in its run's folder.

    Attributes:
        run: the folder.
        output: the policy directory; it always holds the best policy so far.
        algorithm: what learns.
        workshop: what it compiles and is judged with.
        provenance: of the policies, but for what only their judgement tells.
        also_told: of each event, beside the run's own log.
    """

    run: RunDirectory
    output: Path
    algorithm: Algorithm
    workshop: Workshop
    provenance: Mapping[str, object]
    also_told: Callable[[Mapping[str, object]], None] = lambda event: None

    def go(self) -> None:
        """Work until the plan or the time is at its end; Ctrl-C leaves the best so far, and a state to go on from."""
        self._write_policy()
        try:
            for event in itertools.chain(self.workshop.begin(), self.algorithm.run()):
                self._log(event)
                if event["event"] == "best":
                    self._write_policy()
                elif event["event"] in ("sweep", "round"):  # between the two, candidates are judged again
                    save_state(self.run.checkpoint, self._state())
        except KeyboardInterrupt:
            self._log({"event": "interrupted"})
            raise
        self._write_policy()  # its provenance now has the whole run
        self._log({"event": "end", "stopped_by": self.stopped_by})

    @property
    def stopped_by(self) -> str:
        """What ended the work: "plan" or "time"."""
        return "time" if self.workshop.cut_short else "plan"

    def restore(self) -> None:
        """Go on from the run's checkpoint.

        Raises:
            ConfigError: there is none that can be used.
        """
        state = load_state(self.run.checkpoint)
        session = state.facts["session"]
        best = load_policy(self.run.policy(session["best"])) if session["best"] else None
        self.workshop.restore(session, best)
        self.algorithm.restore(State(facts=state.facts["algorithm"], arrays=state.arrays))
        self._log({"event": "resumed"})

    def _log(self, event: Mapping[str, object]) -> None:
        budget = self.workshop.budget
        whole = {**event, "compiles": budget.compiles, "cpu_s": round(budget.cpu_s, 3)}
        self.run.event(whole)
        self.also_told(whole)

    def _state(self) -> State:
        state = self.algorithm.state()
        return State(facts={"session": self.workshop.facts(), "algorithm": dict(state.facts)}, arrays=state.arrays)

    def _write_policy(self) -> None:
        best = self.workshop.best or self.workshop.start or default_policy()
        whole = Policy(
            problem=best.problem,
            graph=best.graph,
            advice=best.advice,
            defaults=best.defaults,
            provenance={**self.provenance, **self._judgement()},
        )
        save_policy(whole, self.run.policy(self.workshop.best_number))
        save_policy(whole, self.output)

    def _judgement(self) -> dict[str, object]:
        budget, judged = self.workshop.budget, self.workshop.best_judged
        cost = {"labels": self.algorithm.labels, "compiles": budget.compiles, "cpu_s": round(budget.cpu_s, 1)}
        if judged is None:
            return {**cost, "note": "no candidate beat LLVM's default on the validation modules; this is that default"}
        return {
            **cost,
            **judged.details,
            "validation_text_change_percent": judged.text_change_percent,
            "validation_berkeley_change_percent": judged.berkeley_change_percent,
        }


def default_policy() -> Policy:
    """The policy that leaves every decision to LLVM."""
    make = GraphBuilder()
    make.output(INLINING_ADVICE.name, (make.input(INLINING_DEFAULT) > 0).cast("int64_t"))
    return Policy(problem="inlining", graph=make.build(), advice=INLINING_ADVICE.name)
