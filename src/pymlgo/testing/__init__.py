"""What users need for their own tests: a compiler that is none; in `strategies` (needs hypothesis) specs, headers, logs."""

from __future__ import annotations

from pymlgo.testing.fake_compiler import FakeCompiler, FakeContext, Fault

__all__ = ["FakeCompiler", "FakeContext", "Fault"]
