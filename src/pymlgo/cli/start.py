"""The program `mlgo`: `mlgo clang` of a policy that is known goes to the compiler at once, all else through `main`."""

from __future__ import annotations

import sys


def main() -> int:
    """The exit code, as `pymlgo.cli.main.main` gives it."""
    if sys.argv[1:2] == ["clang"]:
        from pymlgo.deploy.launcher import launch

        code = launch(sys.argv[2:])
        if code is not None:
            return code
    from pymlgo.cli.main import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
