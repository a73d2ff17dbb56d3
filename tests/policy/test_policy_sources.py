"""Policies from archives, URLs and SavedModels; names that would leave the folder never do."""

from __future__ import annotations

import hashlib
import http.server
import io
import os
import subprocess
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from policy_samples import sample_policies
from pymlgo.errors import MLGOError, PolicyError, ToolchainError
from pymlgo.policy.directory import load_policy, save_policy
from pymlgo.policy.interpreter import evaluate_batch
from pymlgo.policy.sources import import_policy

GOLDEN = Path(__file__).with_name("golden")
LINEAR = sample_policies()["linear"].graph.fingerprint()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    save_policy(sample_policies()["linear"], tmp_path / "policy")
    return tmp_path / "policy"


@pytest.fixture
def archive(directory: Path, tmp_path: Path) -> Path:
    with tarfile.open(tmp_path / "policy.tar.gz", "w:gz") as tar:
        tar.add(directory, arcname="release-1/policy")
    return tmp_path / "policy.tar.gz"


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def test_a_directory(directory: Path) -> None:
    imported = import_policy(str(directory))
    assert imported.graph.fingerprint() == LINEAR
    assert imported.provenance["imported"] == {"source": str(directory)}


def test_what_the_real_converter_wrote() -> None:
    imported = import_policy(str(GOLDEN / "inliner"))
    assert imported.problem == "inlining"
    assert imported.provenance["imported"]["model_sha256"] == digest(GOLDEN / "inliner" / "model.tflite")


def test_archives(archive: Path, directory: Path, tmp_path: Path) -> None:
    assert import_policy(str(archive)).graph.fingerprint() == LINEAR
    with zipfile.ZipFile(tmp_path / "policy.zip", "w") as packed:
        for file in directory.iterdir():
            packed.write(file, f"x/{file.name}")
    assert import_policy(str(tmp_path / "policy.zip"), sha256=digest(tmp_path / "policy.zip")).problem == "inlining"


def test_a_file_url(archive: Path) -> None:
    imported = import_policy(archive.as_uri(), sha256=digest(archive).upper())
    assert imported.provenance["imported"] == {"source": archive.as_uri(), "sha256": digest(archive)}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path))) as served:
        thread = threading.Thread(target=served.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{served.server_address[1]}"
        served.shutdown()
        thread.join()


def test_an_http_url(server: str, archive: Path) -> None:
    assert import_policy(f"{server}/{archive.name}", sha256=digest(archive)).graph.fingerprint() == LINEAR
    with pytest.raises(PolicyError, match="cannot be fetched"):
        import_policy(f"{server}/missing.tar.gz", sha256=digest(archive))
    with pytest.raises(PolicyError, match="a URL needs a checksum"):
        import_policy(f"{server}/{archive.name}")


def test_a_wrong_checksum(archive: Path) -> None:
    with pytest.raises(PolicyError, match=f"sha256 is {digest(archive)}, expected 00"):
        import_policy(str(archive), sha256="00")


def packed(tmp_path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> str:
    with tarfile.open(tmp_path / "hostile.tar", "w") as tar:
        for info, data in members:
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return str(tmp_path / "hostile.tar")


@pytest.mark.parametrize("name", ["../escaped", "/tmp/policy_escaped", "a/../../escaped"])
def test_members_stay_in_the_folder(name: str, tmp_path: Path) -> None:
    source = packed(tmp_path, (tarfile.TarInfo(name), b"x"))
    with pytest.raises(PolicyError, match="would leave the folder"):
        import_policy(source)
    assert not (tmp_path / "escaped").exists()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_links_and_devices_are_refused(kind: bytes, tmp_path: Path) -> None:
    info = tarfile.TarInfo("policy.json")
    info.type, info.linkname = kind, "/etc/passwd"
    with pytest.raises(PolicyError, match="neither a file nor a folder"):
        import_policy(packed(tmp_path, (info, b"")))


def test_bombs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pymlgo.policy.sources.LARGEST_FILE_BYTES", 1 << 20)
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as bomb:
        for index in range(4):
            bomb.writestr(f"{index}", bytes(1 << 19))
    with pytest.raises(PolicyError, match="which no policy has"):
        import_policy(str(tmp_path / "bomb.zip"))
    source = packed(tmp_path, *((tarfile.TarInfo(f"{index}"), b"") for index in range(1001)))
    with pytest.raises(PolicyError, match="more than 1000 files"):
        import_policy(source)


def test_damaged_archives(archive: Path, tmp_path: Path) -> None:
    (tmp_path / "cut.tar.gz").write_bytes(archive.read_bytes()[:200])
    (tmp_path / "noise").write_bytes(b"noise" * 100)
    for name in ("cut.tar.gz", "noise"):
        with pytest.raises(PolicyError):
            import_policy(str(tmp_path / name))


@pytest.mark.parametrize(
    ("source", "message"),
    [("missing", "does not exist"), ("ftp://example.org/x", "unknown kind of URL"), ("file:///missing", "checksum")],
)
def test_sources_that_are_none(source: str, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        import_policy(source)


def test_two_policies_in_an_archive_are_not_guessed_at(directory: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "two.tar", "w") as tar:
        tar.add(directory, arcname="x/a")
        tar.add(directory, arcname="x/b")
    with pytest.raises(PolicyError, match="expected one policy, found x/a, x/b"):
        import_policy(str(tmp_path / "two.tar"))


# --- SavedModels --------------------------------------------------------------------------------------------


def test_without_tensorflow_there_is_a_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYMLGO_TF_PYTHON", raising=False)
    (tmp_path / "saved_model.pb").write_bytes(b"")
    with pytest.raises(ToolchainError, match="PYMLGO_TF_PYTHON is not set") as caught:
        import_policy(str(tmp_path))
    assert "pip install tensorflow-cpu==2.15.1" in str(caught.value.hint)


@pytest.mark.parametrize("python", ["/missing/python", "/bin/false"])
def test_a_python_without_tensorflow(python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYMLGO_TF_PYTHON", python)
    (tmp_path / "saved_model.pb").write_bytes(b"")
    with pytest.raises(MLGOError):
        import_policy(str(tmp_path))


@pytest.mark.full
@pytest.mark.parametrize("name", ["inliner", "eviction"])
def test_a_saved_model_through_the_real_tensorflow(name: str, tmp_path: Path) -> None:
    python = os.environ.get("PYMLGO_TF_PYTHON")
    if not python:
        pytest.skip("PYMLGO_TF_PYTHON names no Python with TensorFlow 2.15")
    script = GOLDEN.parents[2] / "scripts" / "tf_oracle.py"
    subprocess.run([python, str(script), "saved-model", name, str(tmp_path / "saved")], check=True, capture_output=True)
    imported = import_policy(str(tmp_path / "saved"))
    golden = load_policy(GOLDEN / name)
    rng = np.random.default_rng(1)
    batch = {spec.name: rng.integers(0, 7, (40, *spec.shape)).astype(spec.dtype) for spec in golden.graph.inputs}
    expected, found = (evaluate_batch(policy.graph, batch)[golden.advice] for policy in (golden, imported))
    np.testing.assert_array_equal(found, expected)
