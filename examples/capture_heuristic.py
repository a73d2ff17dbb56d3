#!/usr/bin/env python3
"""Captures what LLVM's own inliner decides: every call site's features and its decision, as a training log.

    python examples/capture_heuristic.py SOURCE.c LOG

A stock clang is asked for its features and its own decision (`inlining_default`) at every call site and told to do just
that. The features go into a `NoInferenceModelRunner`, which has no model behind it; the logger takes them from there.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from pymlgo import NoInferenceModelRunner
from pymlgo.channel import Advise, Observation, host
from pymlgo.problem import INLINING
from pymlgo.runner.logger import RunnerLogger
from pymlgo.toolchain.llvm import find_llvm
from pymlgo.training_log import Header


def capture(source: Path, log: Path) -> int:
    """Compile `source` at -Oz as clang does by itself, and log it; the number of decisions."""
    llvm = find_llvm()
    command = [llvm.clang, "-Oz", "-c", source, "-o", "/dev/null"]
    with log.open("wb") as stream:

        def on_header(header: Header) -> Advise:
            inputs = [spec for spec in header.features if spec.name != INLINING.default_feature]
            runner = NoInferenceModelRunner(inputs)
            logger = RunnerLogger(stream, runner, decision=INLINING.advice)
            logger.switch_context("")  # an inliner's decisions belong to the module

            def advise(observation: Observation) -> int:
                for index, spec in enumerate(inputs):
                    runner.get_tensor(index)[...] = observation.features[spec.name]
                decision = int(observation.features["inlining_default"].item())
                logger.log(decision)
                return decision

            return advise

        result = host(command, flags=partial(INLINING.channel_flags, llvm), on_header=on_header)
    if result.returncode != 0:
        sys.stderr.write(result.stderr.decode(errors="replace"))
        raise SystemExit(result.returncode)
    return result.decisions


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    print(f"{capture(Path(sys.argv[1]), Path(sys.argv[2]))} decisions")
