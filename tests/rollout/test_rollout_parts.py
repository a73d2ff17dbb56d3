"""Keys, remarks, alignment and the cache, without a compiler."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from pymlgo.corpus.description import Module
from pymlgo.rollout import BaselineCache, Sizes, decision_key
from pymlgo.rollout.backend import failure_reason
from pymlgo.rollout.baseline import baseline_key
from pymlgo.rollout.keys import decision_keys
from pymlgo.rollout.remarks import Remark, pair_remarks, read_remarks, remark_flags

REMARKS = """\
--- !Missed
Pass:            inline
Name:            NoDefinition
Function:        main
Args:
  - Callee:          puts
...
--- !Passed
Pass:            inline-ml
Name:            InliningSuccess
DebugLoc:        { File: 'a b.c', Line: 3,
                   Column: 7 }
Function:        main
Hotness:         5
Args:
  - Callee:          'it''s'
  - cost_estimate:   '-30'
  - ShouldInline:    'true'
...
--- !Missed
Pass:            inline-ml
Name:            IniningNotAttempted
Function:        "\\x01odd\\"name"
Args:
  - Callee:          f.2
  - cost_estimate:   '820'
  - ShouldInline:    'false'
...
"""


def test_a_key_is_llvms_hash_of_the_names() -> None:
    digest = hashlib.md5(b"caller\0callee\x003").digest()
    assert decision_key("caller", "callee", 3) == int.from_bytes(digest[:8], "little")


def test_calls_between_the_same_functions_have_different_keys() -> None:
    keys = decision_keys(["a", "a", "b"], ["f", "f", "f"])
    assert keys.dtype == np.uint64
    assert keys.tolist() == [decision_key("a", "f", 0), decision_key("a", "f", 1), decision_key("b", "f", 0)]


def test_remarks_are_read_with_their_odd_names(tmp_path: Path) -> None:
    file = tmp_path / "remarks.yaml"
    file.write_text(REMARKS)
    assert read_remarks(file) == [
        Remark(caller="main", callee="it's", advice=True),
        Remark(caller='\x01odd"name', callee="f.2", advice=False),
    ]
    assert read_remarks(tmp_path / "none.yaml") == []


def test_remarks_of_other_decisions_are_refused() -> None:
    remarks = [Remark(caller="a", callee="b", advice=True)]
    assert pair_remarks(remarks, np.array([1])) is None
    assert "decision 0 was 0" in str(pair_remarks(remarks, np.array([0])))
    assert "2 decisions, but 1" in str(pair_remarks(remarks, np.array([1, 1])))


def test_a_driver_gets_its_remark_flags_through_xclang() -> None:
    assert remark_flags(["clang", b"-cc1"], Path("r"))[:2] == ["-opt-record-file", "r"]
    assert remark_flags(["clang", b"-O2"], Path("r"))[:4] == ["-Xclang", "-opt-record-file", "-Xclang", "r"]


@pytest.mark.parametrize(
    ("returncode", "stderr", "reason"),
    [
        (1, b"error: Invalid bitcode signature", "bad bitcode"),
        (1, b"error: Unknown attribute kind (102) (Producer: 'LLVM22.1.8' Reader: 'LLVM 19.1.7')", "bad bitcode"),
        (1, b"fatal error: error in backend\nPLEASE submit a bug report to x", "crash"),
        (-11, b"", "crash"),
        (-9, b"", "crash"),
        (1, b"error: unknown argument: '-foo'", "compiler error"),
    ],
)
def test_failures_have_countable_reasons(returncode: int, stderr: bytes, reason: str) -> None:
    assert failure_reason(returncode, stderr)[0] == reason


@pytest.fixture
def module(tmp_path: Path) -> Module:
    bitcode = tmp_path / "m.bc"
    bitcode.write_bytes(b"BC")
    return Module(name="m", bitcode=bitcode, command=(b"-cc1", b"-Oz"), size_bytes=2)


def test_the_cache_keeps_what_it_is_given(tmp_path: Path) -> None:
    cache = BaselineCache(tmp_path)
    sizes = Sizes(text_bytes=10, berkeley_bytes=20)
    assert cache.get("ab12") is None
    cache.put("ab12", sizes)
    assert cache.get("ab12") == sizes
    (tmp_path / "ab" / "ab12.json").write_text("{")
    assert cache.get("ab12") is None
    (tmp_path / "ab" / "ab12.json").write_text(json.dumps({"text_bytes": 1}))
    assert cache.get("ab12") is None


def test_a_baseline_depends_on_bitcode_flags_and_compiler(module: Module, tmp_path: Path) -> None:
    key = baseline_key(module, "compiler")
    assert key != baseline_key(module, "another")
    other = Module(name="m", bitcode=module.bitcode, command=(b"-cc1", b"-O2"), size_bytes=2)
    assert key != baseline_key(other, "compiler")
    moved = tmp_path / "moved.bc"
    moved.write_bytes(b"BC")
    same = Module(name="n", bitcode=moved, command=module.command, size_bytes=2)
    assert key == baseline_key(same, "compiler")
    moved.write_bytes(b"BD")
    assert key != baseline_key(same, "compiler")
