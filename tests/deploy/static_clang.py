"""A clang whose cc1 is linked statically, as the tarballs of LLVM's releases are: Debian has none, but the libraries.

The driver is the real one, which starts this program for `-cc1`.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from conftest import ROOT

SOURCE = """
#include "compile.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Plugins/PassPlugin.h"
#include "llvm/Support/raw_ostream.h"
#include <unistd.h>

// Debian's static libraries refer to Polly and do not bring it.
llvm::PassPluginLibraryInfo getPollyPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "polly", "0", [](llvm::PassBuilder &) {}, nullptr};
}

int main(int count, char **words) {
  if (count > 1 && llvm::StringRef(words[1]) == "-cc1") {
    pymlgo::initializeCompiler();
    std::vector<std::string> arguments(words + 2, words + count);
    return !pymlgo::compile(arguments, llvm::errs(), pymlgo::Memory::Left);
  }
  std::vector<const char *> driver = {words[0], "-no-canonical-prefixes", "-fno-integrated-cc1"};
  driver.insert(driver.end(), {"-resource-dir", RESOURCES});
  driver.insert(driver.end(), words + 1, words + count);
  driver.push_back(nullptr);
  ::execv(DRIVER, const_cast<char **>(driver.data()));
  return 127;
}
"""

SYSTEM_LIBRARIES = ("dl", "m", "rt", ":libz3.so.4", ":libz.so.1", ":libzstd.so.1", ":libxml2.so.2")


def build_static_clang(folder: Path, clang: Path, *, exported: bool) -> Path:
    """Compile and link it, without symbol table; `exported` puts LLVM's symbols in the reach of plugins."""
    prefix = clang.resolve().parent.parent
    libraries = sorted(
        each
        for each in (*prefix.glob("lib/libclang*.a"), *prefix.glob("lib/libLLVM*.a"))
        if each.name not in ("libclang.a", "libLLVMPolly.a")
    )
    if not any(each.name == "libclangFrontendTool.a" for each in libraries):
        pytest.skip(f"no static libraries of clang in {prefix}/lib")
    source, program = folder / "static-clang.cpp", folder / "static-clang"
    source.write_text(SOURCE)
    resources = subprocess.run([clang, "-print-resource-dir"], check=True, capture_output=True, text=True).stdout
    engine = ROOT / "native/engine"
    compiled = ["-std=c++17", "-O0", "-w", f"-I{prefix}/include", f"-I{engine}", source, engine / "compile.cpp"]
    defined = [f'-DDRIVER="{clang}"', f'-DRESOURCES="{resources.strip()}"']
    linked = [f"-B{prefix}/bin", "-fuse-ld=lld", "-s", "-Wl,--gc-sections", *(["-rdynamic"] if exported else [])]
    system = [f"-l{each}" for each in SYSTEM_LIBRARIES]
    group = ["-Wl,--start-group", *libraries, "-Wl,--end-group"]
    subprocess.run(["g++", *compiled, *defined, *linked, *group, *system, "-o", program], check=True)
    return program
