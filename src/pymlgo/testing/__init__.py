"""What users need for their own tests: a compiler that is none; `strategies` makes specs, headers and logs."""

from __future__ import annotations

from pymlgo.testing.fake_compiler import FakeCompiler, FakeContext, Fault

__all__ = ["FakeCompiler", "FakeContext", "Fault"]
