"""The artefacts for LLVM's tree, in LLVM's own templates and CMake functions."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from compiled_graphs import (
    assert_same_bits,
    eviction_observations,
    inliner_observations,
    policy_of,
    small_eviction,
    small_inliner,
)

from conftest import require_tool
from pymlgo.arrays import AnyArray
from pymlgo.emit import development_options, export_emitc, export_llvm_release
from pymlgo.errors import PolicyError
from pymlgo.policy.builder import GraphBuilder
from pymlgo.policy.interpreter import evaluate_batch
from pymlgo.policy.policy import Policy
from pymlgo.policy.shapes import PRIORITY_ADVICE, constant_policy, threshold_policy
from pymlgo.tensor_spec import TensorSpec

OBSERVATIONS = 1000

DRIVER = r"""
#include "llvm/Analysis/ReleaseModeModelRunner.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/Support/raw_ostream.h"
#include "@CLASS@.h"
#include "EmitCModel.h"
#include <cstdio>
#include <cstring>
#include <fstream>
using namespace llvm;

// A stand-in for EmitCModelRunner of LLVM's main branch, by its documented contract.
template <class TGen> class StandIn final : public MLModelRunner {
public:
  StandIn(LLVMContext &Ctx, const std::vector<TensorSpec> &Inputs)
      : MLModelRunner(Ctx, Kind::Release, Inputs.size()) {
    for (size_t I = 0; I < Inputs.size(); ++I) {
      auto Found = Model.reflectionMap.find(Inputs[I].name());
      void *Buffer = Found == Model.reflectionMap.end() ? nullptr : static_cast<void *>(Found->second);
      setUpBufferForTensor(I, Inputs[I], Buffer);
    }
  }

private:
  using Result = decltype(std::declval<TGen>()());
  static_assert(!std::is_void_v<Result>);
  void *evaluateUntyped() override {
    Value = Model();
    return &Value;
  }
  Result Value = {};
  TGen Model = {};
};

static void report(const DiagnosticInfo *Info, void *) {
  std::string Text;
  raw_string_ostream Stream(Text);
  DiagnosticPrinterRawOStream Printer(Stream);
  Info->print(Printer);
  std::fprintf(stderr, "diagnostic: %s\n", Text.c_str());
}

int main(int Count, char **Arguments) {
  LLVMContext Ctx;
  Ctx.setDiagnosticHandlerCallBack(report);
  std::vector<TensorSpec> Features{@FEATURES@};
  EmbeddedModelRunnerOptions Options;
  if (Count > 3)
    Options.setModelSelector(Arguments[3]);
  ReleaseModeModelRunner<@CLASS@> Runner(Ctx, Features, "@DECISION@", Options);
  StandIn<EmitCModel> EmitC(Ctx, Features);
  @CLASS@ Own;
  std::vector<void *> Buffers;
  for (const TensorSpec &Spec : Features) {
    int Index = Own.LookupArgIndex("feed_" + Spec.name());
    Buffers.push_back(Index < 0 ? nullptr : Own.arg_data(Index));
  }
  float *Extra = static_cast<float *>(Own.result_data(Own.LookupResultIndex("fetch_@EXTRA@")));
  std::ifstream In(Arguments[1], std::ios::binary);
  std::ofstream Out(Arguments[2], std::ios::binary);
  std::vector<char> Bytes;
  while (In.peek() != EOF) {
    for (size_t I = 0; I < Features.size(); ++I) {
      Bytes.resize(Features[I].getTotalTensorBufferSize());
      In.read(Bytes.data(), Bytes.size());
      std::memcpy(Runner.getTensorUntyped(I), Bytes.data(), Bytes.size());
      std::memcpy(EmitC.getTensorUntyped(I), Bytes.data(), Bytes.size());
      if (Buffers[I])
        std::memcpy(Buffers[I], Bytes.data(), Bytes.size());
    }
    int64_t Decisions[] = {Runner.evaluate<int64_t>(), EmitC.evaluate<int64_t>()};
    Own.Run();
    Out.write(reinterpret_cast<char *>(Decisions), sizeof Decisions);
    Out.write(reinterpret_cast<char *>(Extra), @EXTRA_BYTES@);
  }
}
"""

UNKNOWN_FEATURE = TensorSpec("a_feature_of_a_newer_compiler", "int64_t", (3,))


def llvm_config(*arguments: str) -> list[str]:
    tool = require_tool("llvm-config-22")
    return subprocess.run([tool, *arguments], capture_output=True, text=True, check=True).stdout.split()


def cpp_spec(spec: TensorSpec) -> str:
    return f'TensorSpec::createSpec<{spec.type}>("{spec.name}", {{{", ".join(map(str, spec.shape))}}})'


def build_with_llvm(source: Path, model: Path, program: Path) -> None:
    """Compile a program that includes LLVM's headers and the model's, and link it to libLLVM."""
    (include,), (libraries,) = llvm_config("--includedir"), llvm_config("--libdir")
    flags = ["-std=c++17", "-O1", "-fno-exceptions", "-Wall", "-Werror", f"-I{source.parent}", "-isystem", include]
    linked = [f"-L{libraries}", "-lLLVM-22", f"-Wl,-rpath,{libraries}"]
    subprocess.run(["g++", *flags, source, model, "-o", program, *linked], check=True)


def build_driver(folder: Path, policy: Policy, class_name: str, features: Sequence[TensorSpec]) -> Path:
    """A program with the release class in LLVM's template, the EmitC class in the stand-in, and the class alone."""
    extra = policy.graph.output_specs[1]
    text = DRIVER
    for name, value in {
        "CLASS": class_name,
        "FEATURES": ", ".join(map(cpp_spec, features)),
        "DECISION": policy.advice,
        "EXTRA": extra.name,
        "EXTRA_BYTES": str(extra.byte_size),
    }.items():
        text = text.replace(f"@{name}@", value)
    source, program = folder / "driver.cpp", folder / "driver"
    source.write_text(text)
    build_with_llvm(source, folder / f"{class_name}.o", program)
    return program


def write_observations(file: Path, features: Sequence[TensorSpec], inputs: dict[str, AnyArray]) -> None:
    count = len(next(iter(inputs.values())))
    columns = []
    for spec in features:
        values = inputs.get(spec.name, np.full((count, *spec.shape), 77, spec.dtype))
        columns.append(np.ascontiguousarray(values, spec.dtype).reshape(count, -1).view(np.uint8))
    file.write_bytes(np.concatenate(columns, axis=1).tobytes())


def check_in_llvm(folder: Path, policy: Policy, inputs: dict[str, AnyArray]) -> Path:
    """Run every observation through both of LLVM's shapes and compare with the oracle; the driver."""
    made = export_llvm_release({"policy": policy}, folder)
    export_emitc(policy, folder, class_name="EmitCModel")
    features = [*policy.graph.inputs[3:], UNKNOWN_FEATURE, *policy.graph.inputs[:3]]  # bound by name, not by place
    driver = build_driver(folder, policy, made.class_name, features)
    write_observations(folder / "in", features, inputs)
    subprocess.run([driver, folder / "in", folder / "out"], check=True)

    extra = policy.graph.output_specs[1]
    record = np.dtype([("release", "<i8"), ("emitc", "<i8"), ("extra", extra.dtype, extra.shape)])
    found = np.frombuffer((folder / "out").read_bytes(), record)
    expected = evaluate_batch(policy.graph, inputs)
    decisions = expected[policy.advice].ravel()
    assert len(found) == OBSERVATIONS
    assert len(set(decisions.tolist())) > 1, "the observations should differ in their decisions"
    assert np.array_equal(found["release"], decisions)
    assert np.array_equal(found["emitc"], decisions)
    assert_same_bits(np.ascontiguousarray(found["extra"]), expected[extra.name], extra.name)
    return driver


@pytest.mark.llvm
@pytest.mark.spec("building.release.runner")
def test_the_inliner_decides_in_llvms_templates_as_the_oracle_does(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    policy = small_inliner(rng)
    driver = check_in_llvm(tmp_path, policy, inliner_observations(policy, rng, OBSERVATIONS))
    # Here, for the driver takes seconds to build: a selector that a single policy does not have.
    done = subprocess.run([driver, "/dev/null", "/dev/null", "foo"], capture_output=True, text=True, check=True)
    assert "does not expose a model_selector input" in done.stderr


@pytest.mark.llvm
@pytest.mark.spec("building.release.runner")
def test_eviction_decides_in_llvms_templates_as_the_oracle_does(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    policy = small_eviction(rng)
    check_in_llvm(tmp_path, policy, eviction_observations(policy, rng, OBSERVATIONS))


SELECTOR_DRIVER = r"""
#include "llvm/Analysis/ReleaseModeModelRunner.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/LLVMContext.h"
#include "InlinerSizeModel.h"
#include <cstdio>
using namespace llvm;
int main(int Count, char **Arguments) {
  LLVMContext Ctx;
  Ctx.setDiagnosticHandlerCallBack([](const DiagnosticInfo *, void *) { std::fputs("diagnosed\n", stderr); });
  EmbeddedModelRunnerOptions Options;
  Options.setModelSelector(Arguments[1]);
  std::vector<TensorSpec> Features{TensorSpec::createSpec<int64_t>("cost_estimate", {1})};
  ReleaseModeModelRunner<InlinerSizeModel> Runner(Ctx, Features, "inlining_decision", Options);
  for (int64_t Cost : {-20, 5, 60}) {
    *Runner.getTensor<int64_t>(0) = Cost;
    std::printf("%d", static_cast<int>(Runner.evaluate<int64_t>()));
  }
  std::puts("");
}
"""


@pytest.mark.llvm
@pytest.mark.spec("building.release.selector")
def test_llvms_selector_picks_one_of_several_policies(tmp_path: Path) -> None:
    policies = {"careful": threshold_policy(threshold=0), "bold": threshold_policy(threshold=50)}
    made = export_llvm_release(policies, tmp_path)
    assert made.models == ("careful", "bold")
    assert "-ml-inliner-model-selector=careful" in made.clang
    (tmp_path / "driver.cpp").write_text(SELECTOR_DRIVER)
    build_with_llvm(tmp_path / "driver.cpp", made.object, tmp_path / "driver")

    def run(selector: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([tmp_path / "driver", selector], capture_output=True, text=True, check=False)

    assert run("careful").stdout == "100\n"
    assert run("bold").stdout == "110\n"
    assert "diagnosed" in run("").stderr
    wrong = run("no such policy")
    assert wrong.returncode < 0
    assert "model_selector names no policy of this artefact, which has: careful, bold" in wrong.stderr


# --- CMake --------------------------------------------------------------------------------------------------

PROJECT = """
cmake_minimum_required(VERSION 3.20)
project(Tree CXX)
set(CMAKE_CXX_STANDARD 17)
list(APPEND CMAKE_MODULE_PATH "{modules}")
# As llvm/CMakeLists.txt does where TENSORFLOW_AOT_PATH is set.
include_directories("${{TENSORFLOW_AOT_PATH}}/include")
add_subdirectory("${{TENSORFLOW_AOT_PATH}}/xla_aot_runtime_src" "${{CMAKE_BINARY_DIR}}/tf_runtime")
install(TARGETS tf_xla_runtime EXPORT LLVMExports ARCHIVE DESTINATION lib)
include(TensorFlowCompile)
# As lib/Analysis/CMakeLists.txt and lib/CodeGen/CMakeLists.txt do.
tf_find_and_compile("${{LLVM_INLINER_MODEL_PATH}}" "<UNSPECIFIED>" "models/inliner-Oz" "gen.py" serve action
                    InlinerSizeModel llvm::InlinerSizeModel)
tf_find_and_compile("${{LLVM_RAEVICT_MODEL_PATH}}" "<UNSPECIFIED>" "models/regalloc" "gen.py" serve action
                    RegAllocEvictModel llvm::RegAllocEvictModel)
add_library(Analysis SHARED analysis.cpp ${{GeneratedMLSources}})
target_include_directories(Analysis PRIVATE "${{CMAKE_CURRENT_BINARY_DIR}}")
target_link_libraries(Analysis PRIVATE ${{MLLinkDeps}})
add_dependencies(Analysis ${{MLDeps}})
add_executable(ask ask.cpp)
target_link_libraries(ask PRIVATE Analysis)
"""

ANALYSIS = """
#include <cstdint>
#ifdef LLVM_HAVE_TF_AOT_INLINERSIZEMODEL
#include "InlinerSizeModel.h"
#endif
#ifdef LLVM_HAVE_TF_AOT_REGALLOCEVICTMODEL
#include "RegAllocEvictModel.h"
#endif
int models() {
  int Found = 0;
#ifdef LLVM_HAVE_TF_AOT_INLINERSIZEMODEL
  llvm::InlinerSizeModel Inliner;
  Inliner.Run();
  Found += 1;
#endif
#ifdef LLVM_HAVE_TF_AOT_REGALLOCEVICTMODEL
  llvm::RegAllocEvictModel Evict;
  Evict.Run();
  Found += 2;
#endif
  return Found;
}
"""


def built_tree(folder: Path, definitions: Sequence[str]) -> int:
    """Configure and build a project through the real TensorFlowCompile.cmake; which models it has (1 and 2)."""
    modules = Path(llvm_config("--cmakedir")[0])
    source, build = folder / "tree", folder / "build"
    source.mkdir()
    (source / "CMakeLists.txt").write_text(PROJECT.format(modules=modules))
    (source / "analysis.cpp").write_text(ANALYSIS)
    (source / "ask.cpp").write_text("int models();\nint main() { return models(); }\n")
    for command in (
        [require_tool("cmake"), "-S", source, "-B", build, "-DCMAKE_BUILD_TYPE=Debug", *definitions],
        ["cmake", "--build", build],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return subprocess.run([build / "ask"], check=False).returncode


@pytest.mark.llvm
@pytest.mark.spec("building.release.override")
def test_llvms_cmake_takes_both_models(tmp_path: Path) -> None:
    out = tmp_path / "out"
    export_llvm_release({"p": threshold_policy()}, out)
    made = export_llvm_release({"p": small_eviction(np.random.default_rng(3), registers=5)}, out)
    assert built_tree(tmp_path, made.cmake) == 1 + 2


@pytest.mark.llvm
@pytest.mark.spec("building.release.either")
def test_llvms_cmake_takes_one_model_alone(tmp_path: Path) -> None:
    made = export_llvm_release({"p": threshold_policy()}, tmp_path / "out")
    assert "-DLLVM_RAEVICT_MODEL_PATH=none" in made.cmake
    assert built_tree(tmp_path, made.cmake) == 1


# --- what is refused, and what is said ----------------------------------------------------------------------


def test_objects_need_nothing_but_memcpy(tmp_path: Path) -> None:
    made = export_llvm_release({"p": small_inliner(np.random.default_rng(4))}, tmp_path)
    listed = subprocess.run(["nm", "--undefined-only", made.object], capture_output=True, text=True, check=True).stdout
    assert {line.split()[-1] for line in listed.splitlines()} <= {"memcpy", "memset", "_GLOBAL_OFFSET_TABLE_"}


def test_a_problem_without_a_place_in_llvm_is_refused(tmp_path: Path) -> None:
    policy = constant_policy("priority", PRIORITY_ADVICE, 1.0)
    with pytest.raises(PolicyError, match=r"no place for a compiled-in model of 'priority'"):
        export_llvm_release({"p": policy}, tmp_path)
    assert export_emitc(policy, tmp_path, class_name="Priority").exists()
    with pytest.raises(PolicyError, match=r"no name for a C\+\+ class"):
        export_emitc(policy, tmp_path, class_name="not a name")


def test_another_decision_than_llvms_is_refused(tmp_path: Path) -> None:
    make = GraphBuilder()
    make.output("choice", make.input(TensorSpec("x", "int32_t", (1,))))
    with pytest.raises(PolicyError, match=r"LLVM reads .*inlining_decision"):
        export_llvm_release({"p": policy_of(make.build())}, tmp_path)


def test_several_policies_only_where_llvm_can_select(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    both = {name: small_eviction(rng, registers=3) for name in "ab"}
    with pytest.raises(PolicyError, match="for inlining only"):
        export_llvm_release(both, tmp_path)
    with pytest.raises(PolicyError, match="no policy was given"):
        export_llvm_release({}, tmp_path)


@pytest.mark.spec("building.development.options")
def test_development_mode_command_lines(tmp_path: Path) -> None:
    options = development_options("inlining", tmp_path, Path("log"))
    assert options[1::2] == (
        "-enable-ml-inliner=development",
        f"-ml-inliner-model-under-training={tmp_path}",
        "-training-log=log",
    )
    assert f"-regalloc-model={tmp_path}" in development_options("eviction", tmp_path, Path("log"))
