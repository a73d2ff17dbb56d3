"""Policies from elsewhere: directories, SavedModels, ONNX files, archives, and URLs with a checksum."""

from __future__ import annotations

import dataclasses
import hashlib
import tarfile
import tempfile
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from pymlgo.errors import PolicyError
from pymlgo.policy.directory import POLICY_FILE, load_policy
from pymlgo.policy.limited_file import LARGEST_FILE_BYTES, read_limited
from pymlgo.policy.onnx.reader import read_onnx
from pymlgo.policy.policy import Policy
from pymlgo.policy.saved_model import convert_saved_model
from pymlgo.policy.tflite.development_mode import MODEL_FILE

SAVED_MODEL_FILE = "saved_model.pb"
DOWNLOAD_LIMIT_S = 120.0
LARGEST_MEMBER_COUNT = 1000
SCHEMES = ("http", "https", "file")


def import_policy(source: str, *, sha256: str | None = None, problem: str | None = None) -> Policy:
    """The policy that a path or URL leads to; where it came from is noted in its provenance.

    A directory may be ours, what TensorFlow's converter wrote for LLVM's development mode, or a SavedModel (converted
    by the TensorFlow that PYMLGO_TF_PYTHON names). A file may be an `.onnx` model, or a `.tar.*` or `.zip` archive of
    such a directory.

    Args:
        source: a path, or an http, https or file URL.
        sha256: what the file must have; a URL needs one.
        problem: for ONNX models that do not say it.

    Raises:
        PolicyError: it cannot be had, is not what the checksum says, or is no policy.
        MissingDependency: an ONNX model without onnx.
        ToolchainError: a SavedModel without TensorFlow, or TensorFlow failed.
    """
    with tempfile.TemporaryDirectory(prefix="mlgo-") as folder:
        path = _fetched(source, Path(folder), sha256)
        if path.is_file() and path.suffix != ".onnx":
            path = _unpacked(path, Path(folder, "unpacked"))
        policy = _loaded(path, Path(folder), problem)
    origin = {"source": source, **({"sha256": sha256.lower()} if sha256 else {})}
    imported = policy.provenance.get("imported")
    known = imported if isinstance(imported, dict) else {}
    return dataclasses.replace(policy, provenance={**policy.provenance, "imported": {**known, **origin}})


def _loaded(path: Path, folder: Path, problem: str | None) -> Policy:
    if path.is_file():
        return read_onnx(path, problem=problem)
    directory = _policy_directory(path)
    if (directory / SAVED_MODEL_FILE).exists() and not (directory / MODEL_FILE).exists():
        convert_saved_model(directory, folder / "converted")
        directory = folder / "converted"
    return load_policy(directory)


def _policy_directory(root: Path) -> Path:
    """The directory at or (one alone in an archive) below `root` that holds a policy."""
    files = (POLICY_FILE, MODEL_FILE, SAVED_MODEL_FILE)
    if any((root / name).exists() for name in files):
        return root
    found = sorted({file.parent for name in files for file in root.glob(f"*/**/{name}")} if root.is_dir() else ())
    outermost = [each for each in found if not any(each != other and each.is_relative_to(other) for other in found)]
    if len(outermost) == 1:
        return outermost[0]
    listed = ", ".join(str(each.relative_to(root)) for each in outermost[:8]) or "none"
    raise PolicyError(
        f"{root}: expected one policy, found {listed}", hint=f"a policy is a folder with one of {', '.join(files)}"
    )


# --- getting it ---------------------------------------------------------------------------------------------


def _fetched(source: str, folder: Path, sha256: str | None) -> Path:
    scheme = urllib.parse.urlsplit(source).scheme
    if scheme in SCHEMES and "://" in source:
        if sha256 is None:
            raise PolicyError(
                f"{source}: a URL needs a checksum", hint="give --sha256, from whoever published the policy"
            )
        path = _downloaded(source, folder)
    elif "://" in source:
        raise PolicyError(f"{source}: unknown kind of URL", hint=f"known are {', '.join(SCHEMES)}")
    else:
        path = Path(source)
        if not path.exists():
            raise PolicyError(f"{source}: does not exist")
    if sha256 is not None:
        _check_digest(path, source, sha256)
    return path


def _downloaded(url: str, folder: Path) -> Path:
    name = PurePosixPath(urllib.parse.urlsplit(url).path).name or "policy"
    target = folder / name
    try:
        with urllib.request.urlopen(url, timeout=DOWNLOAD_LIMIT_S) as response, target.open("wb") as stream:
            _copy_limited(response, stream, url)
    except (OSError, ValueError, urllib.error.URLError) as error:
        raise PolicyError(f"{url}: cannot be fetched: {error}") from error
    return target


def _copy_limited(source: IO[bytes], target: IO[bytes], where: str, limit: int = LARGEST_FILE_BYTES) -> int:
    total = 0
    while block := source.read(1 << 20):
        total += len(block)
        if total > limit:
            raise PolicyError(f"{where}: more than {limit} bytes, which no policy has")
        target.write(block)
    return total


def _check_digest(path: Path, source: str, sha256: str) -> None:
    if path.is_dir():
        raise PolicyError(f"{source}: a directory has no SHA-256", hint="give the checksum of an archive or model file")
    found = hashlib.sha256(read_limited(path)).hexdigest()
    if found != sha256.lower():
        raise PolicyError(
            f"{source}: sha256 is {found}, expected {sha256.lower()}",
            hint="the file is damaged, or is not the one meant",
        )


# --- archives -----------------------------------------------------------------------------------------------


def _unpacked(archive: Path, folder: Path) -> Path:
    """The archive's regular files below `folder`; names that would leave it, links and devices are errors."""
    left = LARGEST_FILE_BYTES
    try:
        for count, (name, stream) in enumerate(_members(archive)):
            if count >= LARGEST_MEMBER_COUNT:
                raise PolicyError(f"{archive}: more than {LARGEST_MEMBER_COUNT} files")
            target = folder / _safe_name(name, archive)
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as written:
                left -= _copy_limited(stream, written, f"{archive}: {name}", left)
    except (OSError, tarfile.TarError, zipfile.BadZipFile, EOFError, ValueError, RuntimeError) as error:
        raise PolicyError(f"{archive}: cannot be unpacked: {error}") from error
    return folder


def _members(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as packed:
            for each in packed.infolist():
                if not each.is_dir():
                    with packed.open(each) as stream:
                        yield each.filename, stream
        return
    if not tarfile.is_tarfile(archive):
        raise PolicyError(f"{archive}: neither a policy directory nor an archive or .onnx file of one")
    with tarfile.open(archive) as tar:
        for member in tar:
            if member.isdir():
                continue
            if not member.isfile():
                raise PolicyError(f"{archive}: {member.name!r} is neither a file nor a folder")
            stream_or_none = tar.extractfile(member)
            if stream_or_none is not None:
                yield member.name, stream_or_none


def _safe_name(name: str, archive: Path) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name or not path.parts:
        raise PolicyError(f"{archive}: a file is called {name!r}, which would leave the folder")
    return path
