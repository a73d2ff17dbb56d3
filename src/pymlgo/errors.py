"""Everything that pymlgo raises on purpose.

```
MLGOError
├── SpecError (ValueError)          a tensor spec, or a value offered for one
├── LogError                        a training log: file and byte offset
├── ChannelError                    the conversation with a compiler
├── ToolchainError                  a tool of LLVM: its command and the end of its stderr
├── CorpusError                     a corpus, or what one is made from
├── PolicyError                     a policy directory, its graph or its compiled form
├── VocabularyError                 an embedding vocabulary
├── ConfigError                     a configuration file: the key and the nearest known one
└── MissingDependency (ImportError) an extra that is not installed
```

A message says what, where, expected and found; `hint` says what to do next. The command line prints both on two lines
and exits with `exit_code`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


class MLGOError(Exception):
    """Anything this package raises on purpose."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class SpecError(MLGOError, ValueError):
    """A tensor spec, or a value offered for one, is not what it must be."""


class LogError(MLGOError):
    """A training log is damaged or not one; `file` and `offset` (bytes) say where."""

    def __init__(self, message: str, *, file: str, offset: int, hint: str | None = None) -> None:
        super().__init__(f"{file}, byte {offset}: {message}", hint=hint)
        self.file = file
        self.offset = offset


class ChannelError(MLGOError):
    """The compiler broke the interactive protocol, died, or fell silent."""


class ToolchainError(MLGOError):
    """An LLVM tool is missing, too old, or failed; with the command and the last lines it wrote to stderr."""

    exit_code = 3

    def __init__(
        self,
        message: str,
        *,
        command: Sequence[str] = (),
        stderr_tail: str = "",
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.command = tuple(command)
        self.stderr_tail = stderr_tail


class CorpusError(MLGOError):
    """A corpus, or what one should be made from, is not usable."""


class PolicyError(MLGOError):
    """A policy directory, its graph or its compiled form is not usable."""


class VocabularyError(MLGOError):
    """An embedding vocabulary is not usable."""


class ConfigError(MLGOError):
    """A configuration is wrong: `file` and `key` (dotted path) say where."""

    exit_code = 2

    def __init__(self, message: str, *, file: Path | None = None, key: str = "", hint: str | None = None) -> None:
        where = ", ".join(part for part in (str(file) if file else "", key) if part)
        super().__init__(f"{where}: {message}" if where else message, hint=hint)
        self.file = file
        self.key = key


class MissingDependency(MLGOError, ImportError):
    """An optional library is not installed; the hint is the pip line that brings it."""

    exit_code = 3
