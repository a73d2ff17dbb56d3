"""Objects of three formats, read in process, against LLVM's own tools."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import require_tool
from pymlgo.corpus import function_sizes, object_sizes
from pymlgo.corpus.object_file import FileSource, MemorySource, ObjectError
from pymlgo.corpus.objects import kind_of, read_object

SOURCE = """
extern int other(int);
extern const char *names[];
static int counter;
int table[40] = {1};
const char *greeting = "hello, world";
const int squares[] = {1, 4, 9, 16, 25, 36};
int small(int x) { return x + 1; }
int large(int x) { for (int i = 0; i < x; ++i) counter += other(i * x) / 3; return squares[x & 3] + table[x]; }
"""

TARGETS = {
    "elf64-little": "x86_64-pc-linux-gnu",
    "elf64-big": "powerpc64-unknown-linux-gnu",
    "elf32-little": "i386-pc-linux-gnu",
    "elf32-big": "mips-unknown-linux-gnu",
    "macho64": "arm64-apple-macos12",
    "macho32": "armv7-apple-ios6",
    "coff64": "x86_64-pc-windows-msvc",
    "coff32": "i686-pc-windows-msvc",
    "coff-arm64": "aarch64-pc-windows-msvc",
}


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory, clang22: Path) -> dict[str, Path]:
    """One object per target, with embedded bitcode."""
    folder = tmp_path_factory.mktemp("objects")
    source = folder / "x.c"
    source.write_text(SOURCE)
    found = {}
    for name, target in TARGETS.items():
        built = folder / f"{name}.o"
        command = [
            clang22,
            f"--target={target}",
            "-Oz",
            "-g",
            "-Xclang",
            "-fembed-bitcode=all",
            "-c",
            source,
            "-o",
            built,
        ]
        if subprocess.run(command, check=False, capture_output=True).returncode == 0:
            found[name] = built
    return found


@pytest.mark.llvm
@pytest.mark.parametrize("name", TARGETS)
def test_sections_are_those_that_llvm_objcopy_dumps(name: str, objects: dict[str, Path], tmp_path: Path) -> None:
    if name not in objects:
        pytest.skip(f"this clang has no target {TARGETS[name]}")
    data = objects[name].read_bytes()
    wanted = ("__LLVM,__bitcode", "__LLVM,__cmdline") if name.startswith("macho") else (".llvmbc", ".llvmcmd")
    found = read_object(MemorySource(data))
    for section_name in wanted:
        dumped = tmp_path / "section"
        objcopy = [
            require_tool("llvm-objcopy-22"),
            f"--dump-section={section_name}={dumped}",
            objects[name],
            tmp_path / "o",
        ]
        subprocess.run(objcopy, check=True)
        section = found.find(section_name)
        assert section is not None
        assert found.content(section) == dumped.read_bytes() != b""


@pytest.mark.llvm
@pytest.mark.parametrize("name", TARGETS)
def test_sizes_are_those_of_llvm_size(name: str, objects: dict[str, Path]) -> None:
    if name not in objects:
        pytest.skip(f"this clang has no target {TARGETS[name]}")
    printed = subprocess.run([require_tool("llvm-size-22"), objects[name]], check=True, capture_output=True, text=True)
    sizes = object_sizes(objects[name].read_bytes())
    assert sizes.berkeley_bytes == int(printed.stdout.splitlines()[1].split()[0])
    assert 0 < sizes.text_bytes <= sizes.berkeley_bytes


@pytest.mark.llvm
@pytest.mark.parametrize("name", TARGETS)
def test_function_sizes_fill_the_code_sections(name: str, objects: dict[str, Path]) -> None:
    if name not in objects:
        pytest.skip(f"this clang has no target {TARGETS[name]}")
    data = objects[name].read_bytes()
    sizes = function_sizes(data)
    functions = {symbol.lstrip("_."): size for symbol, size in sizes.items()}
    assert {"small", "large"} <= set(functions)
    assert 0 < functions["small"] < functions["large"]
    assert sum(functions.values()) <= object_sizes(data).text_bytes


@pytest.mark.llvm
def test_function_sizes_of_elf_are_those_of_llvm_nm(objects: dict[str, Path]) -> None:
    nm = [require_tool("llvm-nm-22"), "--print-size", "--defined-only", "--format=posix", objects["elf64-little"]]
    lines = subprocess.run(nm, check=True, capture_output=True, text=True).stdout.splitlines()
    expected = {line.split()[0]: int(line.split()[3], 16) for line in lines if line.split()[1] in "tT"}
    assert function_sizes(objects["elf64-little"].read_bytes()) == expected


@pytest.mark.llvm
def test_more_sections_than_sixteen_bits_hold(clang22: Path, tmp_path: Path) -> None:
    source = tmp_path / "many.s"
    source.write_text("".join(f'.section .s{n},"ax",@progbits\n.byte 1\n' for n in range(66_000)))
    subprocess.run([clang22, "-c", source, "-o", tmp_path / "many.o"], check=True)
    assert object_sizes((tmp_path / "many.o").read_bytes()).text_bytes == 66_000


@pytest.mark.llvm
@pytest.mark.parametrize("name", ["elf64-little", "elf32-big", "macho64", "coff64"])
def test_every_truncation_is_an_object_error_or_whole(name: str, objects: dict[str, Path]) -> None:
    if name not in objects:
        pytest.skip(f"this clang has no target {TARGETS[name]}")
    data = objects[name].read_bytes()
    for length in {*range(0, 600, 7), *range(0, len(data), len(data) // 97)}:
        with pytest.raises(ObjectError):
            read_all(data[:length])


@pytest.mark.llvm
@settings(max_examples=400, deadline=None)
@given(
    edits=st.lists(st.tuples(st.integers(0, 4000), st.binary(min_size=1, max_size=8)), min_size=1, max_size=6),
    seed=st.data(),
)
def test_damaged_bytes_never_escape_as_another_error(
    edits: list[tuple[int, bytes]], seed: st.DataObject, objects: dict[str, Path]
) -> None:
    data = bytearray(objects[seed.draw(st.sampled_from(sorted(objects)))].read_bytes())
    for place, value in edits:
        # Headers and tables are at both ends; the middle is bitcode.
        start = place if place < 2000 else len(data) - place
        data[start : start + len(value)] = value
    read_anything(bytes(data))


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from(
        [b"", b"\x7fELF\x02\x01\x01", b"\x7fELF\x01\x02\x01", b"\xcf\xfa\xed\xfe", b"\xfe\xed\xfa\xce", b"\x64\x86"]
    ),
    st.binary(max_size=300),
)
def test_arbitrary_bytes_never_escape_as_another_error(magic: bytes, rest: bytes) -> None:
    read_anything(magic + rest)


def read_anything(data: bytes) -> None:
    with contextlib.suppress(ObjectError):
        read_all(data)


def read_all(data: bytes) -> None:
    kind_of(data[:32])
    found = read_object(MemorySource(data), with_functions=True)
    for section in found.sections:
        found.content(section)
    function_sizes(data)
    object_sizes(data)


def test_a_giant_section_table_is_refused_without_reading_it() -> None:
    header = bytearray(64)
    header[:6] = b"\x7fELF\x02\x01"
    header[0x28:0x30] = (1 << 62).to_bytes(8, "little")
    header[0x3A:0x3C] = (64).to_bytes(2, "little")
    header[0x3C:0x3E] = (0xFFFF).to_bytes(2, "little")
    with pytest.raises(ObjectError, match="damaged object"):
        read_object(MemorySource(bytes(header)))


def test_a_file_that_shrinks_while_it_is_read_is_an_object_error(tmp_path: Path) -> None:
    path = tmp_path / "x.o"
    path.write_bytes(bytes(100))
    with path.open("rb") as stream:
        source = FileSource(stream.fileno(), 0, 1000)
        with pytest.raises(ObjectError, match="damaged object"):
            source.read(50, 900)
