"""gymnasium environments over real compiles; importing this makes `pymlgo/Inlining-v0` and the others known."""

from __future__ import annotations

import contextlib

from pymlgo.env.checker import check_environment
from pymlgo.env.environment import AllowedActions, CompileEnv, register
from pymlgo.errors import MissingDependency

__all__ = ["AllowedActions", "CompileEnv", "check_environment"]

with contextlib.suppress(MissingDependency):
    register()
