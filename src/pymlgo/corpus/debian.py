"""Debian source packages, fetched with a private state of apt: nothing of the system's changes.

The archives are the machine's own, read from /etc/apt; their signatures are checked as apt is used to.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pymlgo.errors import CorpusError, ToolchainError
from pymlgo.toolchain.process import Finished, run

UPDATE_LIMIT_S = 600.0
DOWNLOAD_LIMIT_S = 900.0
UNPACK_LIMIT_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePackages:
    """A private apt in the folder `state`, with the source indices of this machine's archives.

    Source: the options are those of apt.conf(5) that name where apt keeps its lists and files.
    """

    state: Path
    release: str

    @classmethod
    def prepare(cls, state: Path) -> SourcePackages:
        """Write the private list of archives and download their indices, unless that is done already.

        Raises:
            CorpusError: this is no Debian-like system, or it has no archive with sources.
            ToolchainError: apt-get is missing or fails.
        """
        release = os_release().get("VERSION_CODENAME", "")
        stanzas = list(source_stanzas(Path("/etc/apt"), release))
        if not stanzas:
            raise CorpusError(
                f"no archive of Debian or Ubuntu sources is known for the release {release or 'of this system'!r}",
                hint="recipes need /etc/apt/sources.list or sources.list.d with the distribution's main archive",
            )
        packages = cls(state=state.absolute(), release=release)
        wanted = "\n".join(stanzas)
        sources = packages.state / "parts" / "src.sources"
        for folder in ("parts", "lists/partial", "cache/archives/partial"):
            (packages.state / folder).mkdir(parents=True, exist_ok=True)
        if not sources.exists() or sources.read_text() != wanted:
            sources.write_text(wanted)
            finished = packages._apt(["update"], UPDATE_LIMIT_S)
            # One archive that does not answer leaves the others usable; what is missing shows with its package.
            if finished.returncode != 0 and not any((packages.state / "lists").glob("*Sources*")):
                sources.unlink()
                raise failed("apt-get update", finished)
        return packages

    def fetch(self, package: str, version: str | None, folder: Path) -> Path:
        """Download a source package into `folder`; the path of its `.dsc` file.

        Raises:
            CorpusError: the archive does not have it, or not in that version.
        """
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("*.dsc"):
            old.unlink()
        wanted = f"{package}={version}" if version else f"{package}/{self.release}"
        finished = self._apt(
            ["source", "-qq", "--download-only", "--only-source", wanted], DOWNLOAD_LIMIT_S, cwd=folder
        )
        found = sorted(folder.glob("*.dsc"))
        if finished.returncode != 0 or not found:
            available = ", ".join(self.versions(package)) or "none"
            raise CorpusError(
                f"the source package {wanted} cannot be fetched: {last_line(finished.stderr)}",
                hint=f"the archive has: {available}; another version is taken with --any-version",
            )
        return found[0]

    def versions(self, package: str) -> list[str]:
        """The versions that the indices name, newest last."""
        finished = self._apt_cache(["showsrc", "--only-source", package])
        found = re.findall(r"^Version: (\S+)$", finished.stdout.decode(errors="replace"), re.MULTILINE)
        return list(dict.fromkeys(found))

    def _apt(self, arguments: Sequence[str], limit_s: float, cwd: Path | None = None) -> Finished:
        environment = {**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
        return run(["apt-get", *self._options(), *arguments], limit_s=limit_s, cwd=cwd, env=environment)

    def _apt_cache(self, arguments: Sequence[str]) -> Finished:
        return run(["apt-cache", *self._options(), *arguments], limit_s=60.0, env={**os.environ, "LC_ALL": "C"})

    def _options(self) -> list[str]:
        settings = {
            "Dir::Etc::sourcelist": "/dev/null",
            "Dir::Etc::sourceparts": str(self.state / "parts"),
            "Dir::State::lists": str(self.state / "lists"),
            "Dir::Cache": str(self.state / "cache"),
            "APT::Sandbox::User": "root",
            "APT::Get::List-Cleanup": "false",
            "Acquire::Retries": "2",
        }
        return [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]


def unpack(dsc: Path, folder: Path) -> None:
    """Unpack a source package, with the distribution's patches, as the folder `folder`.

    Raises:
        CorpusError: it cannot be unpacked.
        ToolchainError: dpkg-source is missing.
    """
    # apt checked the files' hashes against the signed index.
    finished = run(["dpkg-source", "--no-check", "--no-copy", "-x", dsc, folder], limit_s=UNPACK_LIMIT_S)
    if finished.returncode != 0:
        raise CorpusError(f"{dsc.name} cannot be unpacked: {last_line(finished.stderr)}")


def source_stanzas(apt: Path, release: str) -> Iterator[str]:
    """deb822 stanzas of type deb-src for the main archives of `release` that the files in `apt` name."""
    seen: set[tuple[str, str]] = set()
    for fields in _stanzas(apt):
        suites = [each for each in fields.get("suites", "").split() if release and each.startswith(release)]
        uris, components = fields.get("uris", ""), fields.get("components", "").split()
        enabled = fields.get("enabled", "yes").lower() not in ("no", "false")
        key = (uris, " ".join(suites))
        if not (suites and uris and "main" in components and enabled) or key in seen:
            continue
        seen.add(key)
        lines = [
            "Types: deb-src",
            f"URIs: {uris}",
            f"Suites: {' '.join(suites)}",
            f"Components: {' '.join(components)}",
        ]
        lines += [f"{name}: {fields[name.lower()]}" for name in ("Signed-By", "Trusted") if fields.get(name.lower())]
        yield "\n".join(lines) + "\n"


def _stanzas(apt: Path) -> Iterator[dict[str, str]]:
    parts = apt / "sources.list.d"
    files = [apt / "sources.list", *(sorted(parts.iterdir()) if parts.is_dir() else [])]
    for file in files:
        try:
            text = file.read_text(errors="replace")
        except OSError:
            continue
        if file.suffix == ".sources":
            yield from (_deb822(stanza) for stanza in re.split(r"\n\s*\n", text))
        elif file.suffix == ".list":
            yield from _one_line_forms(text)


def _deb822(stanza: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    name = ""
    for line in stanza.splitlines():
        if line.startswith("#"):
            continue
        if line[:1] in (" ", "\t") and name:
            fields[name] += f"\n{line}"  # such as a key that is written out under Signed-By
        elif ":" in line:
            name, _, value = line.partition(":")
            name = name.strip().lower()
            fields[name] = value.strip()
    return fields


def _one_line_forms(text: str) -> Iterator[dict[str, str]]:
    for line in text.splitlines():
        match = re.match(r"\s*deb(?:-src)?\s+(?:\[([^]]*)\]\s+)?(\S+)\s+(\S+)\s+([^#]*)", line)
        if match:
            options, uri, suite, components = match.groups()
            given = dict(each.split("=", 1) for each in (options or "").split() if "=" in each)
            yield {
                "uris": uri,
                "suites": suite,
                "components": components.strip(),
                "signed-by": given.get("signed-by", "").replace(",", " "),
                "trusted": given.get("trusted", ""),
            }


def os_release() -> Mapping[str, str]:
    """The fields of /etc/os-release."""
    try:
        text = Path("/etc/os-release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    return {key: value.strip().strip("\"'") for key, value in re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE)}


def last_line(stderr: bytes) -> str:
    """The last line of what a tool said, for a message."""
    lines = [line for line in stderr.decode(errors="backslashreplace").splitlines() if line.strip()]
    return lines[-1][:300] if lines else "it said nothing"


def failed(what: str, finished: Finished) -> ToolchainError:
    """The error for a tool that ended with a failure."""
    return ToolchainError(
        f"{what} failed: {last_line(finished.stderr)}",
        command=finished.command,
        stderr_tail=finished.stderr.decode(errors="replace"),
    )
