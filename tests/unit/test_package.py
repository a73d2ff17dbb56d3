"""What `import pymlgo` offers."""

from __future__ import annotations

import ast
import inspect

import pymlgo


def test_every_offered_name_loads() -> None:
    for name in pymlgo.__all__:
        assert getattr(pymlgo, name) is not None


def test_lazy_names_and_imports_for_type_checkers_agree() -> None:
    tree = ast.parse(inspect.getsource(pymlgo))
    guarded = next(node for node in tree.body if isinstance(node, ast.If))
    imported = {alias.name for node in guarded.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert imported == set(pymlgo._HOMES) == set(pymlgo.__all__) - {"__version__"}
