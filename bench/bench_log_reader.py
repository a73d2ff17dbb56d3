"""Our log reader against a straightforward line-by-line one, on an inliner log of 1,000,000 observations.

The log has LLVM's 38 inliner features (int64, one element each), the action and a score, in one context. Both readers
give the same thing: every feature of the context, each of which is then summed in full, and the sums must agree.

- ours, index: `read_log`, with a view of every feature of every segment taken; no tensor byte is touched.
- ours, views + sum: the same, and every element of every feature read once through the views, batch by batch.
- ours, joined + sum: the same through `context.features`, which copies each feature where digits change.
- line by line: `readline`, `json.loads`, one `read` for each tensor, one `np.frombuffer` for each feature, as LLVM's
  own test reader goes about it; values appended to one list a feature, at the end an array of each, and the sums.

Time is CPU time of this process. The file is in the page cache for both. RssAnon of /proc/self/status is watched for
the private memory that our reader takes.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from pymlgo.tensor_spec import TensorSpec
from pymlgo.training_log import Header, read_log

FEATURES = 38
BLOCK = 10_000
BATCH = 2048
"""Records that are summed before the next: a batch stays in the cache for all its features, as it would in training."""


def header() -> Header:
    features = tuple(TensorSpec(f"feature_{index}", "int64_t", (1,)) for index in range(FEATURES))
    return Header(
        features=(*features, TensorSpec("inlining_decision", "int64_t", (1,))),
        score=TensorSpec("delta_size", "int64_t", (1,)),
    )


def generate(path: Path, observations: int) -> None:
    rng = np.random.default_rng(1)
    with path.open("wb") as stream:
        stream.write(header().to_line() + b'{"context":""}\n')
        for start in range(0, observations, BLOCK):
            rows = min(BLOCK, observations - start)
            tensors = rng.integers(0, 1000, (rows, FEATURES + 1), np.int64)
            scores = rng.integers(-100, 100, rows, np.int64)
            stream.write(
                b"".join(
                    b'{"observation":%d}\n%b\n{"outcome":%d}\n%b\n'
                    % (start + row, tensors[row].tobytes(), start + row, scores[row].tobytes())
                    for row in range(rows)
                )
            )


def line_by_line(path: Path) -> list[int]:
    with path.open("rb") as stream:
        described = json.loads(stream.readline())
        specs = [TensorSpec.from_dict(each) for each in described["features"]]
        score = TensorSpec.from_dict(described["score"])
        columns: list[list[int]] = [[] for _ in range(len(specs) + 1)]
        while line := stream.readline():
            event = json.loads(line)
            if "context" in event:
                continue
            for spec, column in zip(specs, columns, strict=False):
                column.append(np.frombuffer(stream.read(spec.byte_size), spec.dtype)[0])
            stream.readline()
            stream.readline()
            columns[-1].append(np.frombuffer(stream.read(score.byte_size), score.dtype)[0])
            stream.readline()
    return [int(np.array(column).sum()) for column in columns]


def index_only(path: Path) -> list[int]:
    log = read_log(path)
    segments = log.contexts[0].segments
    views = [segment.features[spec.name] for spec in log.header.features for segment in segments]
    return [len(views)]


def summed_views(path: Path) -> list[int]:
    log = read_log(path)
    sums = [0] * (len(log.header.features) + 1)
    for segment in log.contexts[0].segments:
        views = [segment.features[spec.name] for spec in log.header.features]
        views += [segment.outcomes] if segment.outcomes is not None else []
        for start in range(0, len(segment), BATCH):
            for index, view in enumerate(views):
                sums[index] += int(view[start : start + BATCH].sum())
    return sums


def summed_joined(path: Path) -> list[int]:
    log = read_log(path)
    context = log.contexts[0]
    sums = [int(context.features[spec.name].sum()) for spec in log.header.features]
    return [*sums, int(context.outcomes.sum())] if context.outcomes is not None else sums


def timed(work: Callable[[Path], list[int]], path: Path, repeats: int) -> tuple[float, list[int]]:
    best, result = float("inf"), []
    for _ in range(repeats):
        started = time.process_time()
        result = work(path)
        best = min(best, time.process_time() - started)
    return best, result


def private_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--observations", type=int, default=1_000_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mlgo-bench-") as folder:
        path = Path(folder, "inliner.log")
        generate(path, arguments.observations)
        size = path.stat().st_size
        index_only(path)  # page cache and imports are warm for everybody
        before = private_bytes()
        log = read_log(path)
        touched = [int(segment.features["feature_0"].sum()) for segment in log.contexts[0].segments]
        private = private_bytes() - before
        del log, touched
        ours = {
            "ours, index": timed(index_only, path, 3),
            "ours, views + sum": timed(summed_views, path, 3),
            "ours, joined + sum": timed(summed_joined, path, 3),
        }
        peer_s, expected = timed(line_by_line, path, 1)
    print(
        f"{arguments.observations} observations, {size / 1e6:.0f} MB, private memory of read_log {private / 1e6:.1f} MB"
    )
    print(f"{'':<20}{'CPU s':>9}{'MB/s':>9}{'ratio':>8}")
    print(f"{'line by line':<20}{peer_s:>9.3f}{size / peer_s / 1e6:>9.0f}{1:>8.1f}")
    for name, (seconds, _) in ours.items():
        print(f"{name:<20}{seconds:>9.3f}{size / seconds / 1e6:>9.0f}{peer_s / seconds:>8.1f}")
    wrong = [name for name, (_, sums) in ours.items() if name != "ours, index" and sums != expected]
    if wrong or private > size / 10:
        print(f"error: wrong sums by {wrong}" if wrong else "error: the file was copied", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
