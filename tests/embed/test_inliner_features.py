"""What stock clang sends as embeddings through the channel is what we compute."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from embed_oracle import needs_core, random_vocabulary

from conftest import require_tool
from pymlgo.channel.observation import Observation
from pymlgo.embed import embed, read_ir

pytestmark = [pytest.mark.llvm, needs_core]

SOURCE = """
static int twice(int x) { int s = 0; for (int i = 0; i < x; i++) s += i * x; return s; }
int start(int a) { return twice(a) + 1; }
int other(int *p) { return twice(*p) * twice(p[1]); }
"""


@pytest.mark.spec("ir2vec.inliner-features")
def test_the_compilers_embeddings_are_ours(clang22: Path, tmp_path: Path) -> None:
    from pymlgo.channel import host
    from pymlgo.toolchain.flags import inliner_channel_options

    file = tmp_path / "v.json"
    vocabulary = random_vocabulary(file, dimension=8)
    (tmp_path / "m.c").write_text(SOURCE)
    bitcode = tmp_path / "m.bc"
    unoptimized = ["-O2", "-Xclang", "-disable-llvm-passes", "-emit-llvm", "-c"]
    subprocess.run([clang22, *unoptimized, tmp_path / "m.c", "-o", bitcode], check=True)
    seen: list[tuple[np.ndarray, np.ndarray]] = []

    def advise(observation: Observation) -> int:
        features = observation.features
        seen.append((features["callee_embedding"].copy(), features["caller_embedding"].copy()))
        return 0  # nothing is inlined, so the code stays what was read

    # The inliner alone, so that what it sees is the file that we read.
    command = [
        require_tool("opt-22"), "-passes=inliner-ml-advisor-release", bitcode, "-o", tmp_path / "out.bc",
        f"-ml-inliner-ir2vec-vocab-file={file}", f"-ir2vec-vocab-path={file}",
    ]  # fmt: skip
    result = host(command, advise, flags=lambda base: inliner_channel_options(base, include_default=False))
    assert result.returncode == 0, result.stderr
    found = embed(read_ir(bitcode), vocabulary)
    ours = {name: vector.astype(np.float32) for name, vector in zip(found.names, found.vectors, strict=True)}
    assert len(seen) == 3
    callers = [ours["start"], ours["other"]]
    for sent_callee, sent_caller in seen:
        assert np.array_equal(sent_callee.ravel(), ours["twice"])
        assert any(np.array_equal(sent_caller.ravel(), each) for each in callers)
