"""A decision of upstream's two networks: our compiled policy against LiteRT, the interpreter and the memory's limit.

The same random weights and the same observations for all. Boundaries repeat as upstream's do (999 a feature, some 65
distinct ones for inlining and 390 for eviction), for it is the distinct ones that cost.

- limit: the weights' bytes over the bandwidth of the L1 cache, both measured here; nothing that reads its weights once
  a decision can be faster.
- C++ loop: every feature stored into `mlgo_arg_data`, `mlgo_run`, the decision read; x86-64-v3 where the CPU has it.
- Python, one by one: the features stored in one assignment, one foreign call, the decision read.
- Python, a batch: `mlgo_run_batch` on 1,000 observations.
- LiteRT: set_tensor for each feature, invoke, get_tensor; and invoke alone. Without delegates, as upstream builds it
  into LLVM, and with its own choice (XNNPACK).
- TensorFlow's ahead-of-time object, what LLVM compiles in today: only where PYMLGO_TF_PYTHON names a Python with
  TensorFlow 2.15 (scripts/tf_aot_time.py; takes minutes).

Time is CPU time, the least of many short rounds, as other processes can only add to it. The exit code is 1 if decisions
or logits are wrong: any bit different from the interpreter, fewer than 99.9 % of LiteRT's decisions, or logits that
differ by more than 1e-6 of the largest.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from pymlgo.arrays import AnyArray
from pymlgo.emit import compile_policy, find_compiler
from pymlgo.emit.batch import CompiledBatch
from pymlgo.emit.timing import quickest
from pymlgo.policy.directory import save_policy
from pymlgo.policy.interpreter import Interpreter
from pymlgo.policy.policy import Policy
from pymlgo.policy.shapes import Layer, random_layers, upstream_eviction, upstream_inliner
from pymlgo.tensor_spec import TensorSpec

COUNT = 1000
BOUNDARIES = 999
REGISTERS = 33
LOOP = Path(__file__).parent / "policy/loop.cpp"
AOT_SCRIPT = Path(__file__).parent.parent / "scripts/tf_aot_time.py"


@dataclass(frozen=True, kw_only=True)
class Case:
    """A network, observations of it, and the decimal targets that the table is read against (µs)."""

    policy: Policy
    layers: tuple[Layer, ...]
    boundaries: Mapping[str, AnyArray]
    observations: dict[str, AnyArray]
    logits: str
    target_us: float


@dataclass
class Table:
    """Rows as they are measured, and what is wrong."""

    rows: list[tuple[str, float]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def add(self, name: str, seconds: float) -> None:
        """One row."""
        self.rows.append((name, seconds * 1e6))

    def check(self, name: str, found: Mapping[str, AnyArray], expected: Mapping[str, AnyArray], case: Case) -> None:
        """Bits against the interpreter for ours; decisions and logits within the tolerance for others."""
        advice = case.policy.advice
        equal = float(np.mean(np.asarray(found[advice]).ravel() == expected[advice].ravel()))
        wanted = expected[case.logits]
        used = wanted > np.finfo(np.float32).min  # masked registers hold the lowest float
        difference = np.abs(np.asarray(found[case.logits]).reshape(wanted.shape) - wanted)[used].max()
        relative = float(difference / np.abs(wanted[used]).max())
        exact = name.startswith("ours")
        if equal < (1.0 if exact else 0.999) or relative > (0.0 if exact else 1e-6):
            self.wrong.append(f"{name}: {equal:.2%} equal decisions, logits differ by {relative:.1e}")
        print(f"  {name}: {equal:.2%} equal decisions, largest relative difference of logits {relative:.1e}")


def quantized(rng: np.random.Generator, scale: float, step: float) -> AnyArray:
    return np.sort(np.round(rng.exponential(scale, BOUNDARIES) / step) * step).astype(np.float32)


def inliner(rng: np.random.Generator) -> Case:
    features = [TensorSpec(f"feature_{index:02}", "int64_t", (1,)) for index in range(38)]
    scales = (2, 4, 8, 16, 0.4, 60, 1, 30)
    boundaries = {spec.name: quantized(rng, scales[index % 8], 1) for index, spec in enumerate(features)}
    layers = random_layers((76, 40, 40, 20, 2), rng)
    observations = {
        name: (rng.choice(each, (COUNT, 1)) + rng.integers(-1, 2, (COUNT, 1))).astype(np.int64)
        for name, each in boundaries.items()
    }
    policy = upstream_inliner(features, boundaries, layers)
    return Case(
        policy=policy,
        layers=layers,
        boundaries=boundaries,
        observations=observations,
        logits="logits",
        target_us=0.5,
    )


def eviction(rng: np.random.Generator) -> Case:
    bucketed = [f"weighed_{each}_by_max" for each in ("reads", "writes", "read_writes", "indvars")]
    bucketed += [f"{each}_by_max" for each in ("hint_weights", "start_bb_freq", "end_bb_freq", "hottest_bb_freq")]
    bucketed += ["liverange_size", "use_def_density", "nr_defs_and_uses", "nr_broken_hints", "nr_rematerializable"]
    flags = ("mask", "is_hint", "is_local", "is_free", "max_stage", "min_stage")
    features = [TensorSpec(name, "int64_t", (REGISTERS,)) for name in flags]
    features += [TensorSpec(name, "float", (REGISTERS,)) for name in (*bucketed, "nr_urgent")]
    features.append(TensorSpec("progress", "float", (1,)))
    boundaries = {name: quantized(rng, 40, 0.3) for name in (*bucketed, "progress")}
    embeddings = {name: rng.uniform(-0.05, 0.05, (7, 4)).astype(np.float32) for name in ("max_stage", "min_stage")}
    layers = random_layers((42, 80, 40, 1), rng)
    observations: dict[str, AnyArray] = {}
    for spec in features:
        shape = (COUNT, *spec.shape)
        if spec.type == "float":
            observations[spec.name] = rng.exponential(40, shape).astype(np.float32)
        else:
            observations[spec.name] = rng.integers(0, 5 if "stage" in spec.name else 2, shape)
    observations["mask"] = (rng.random((COUNT, REGISTERS)) < 0.7).astype(np.int64)
    observations["use_def_density"][rng.random((COUNT, REGISTERS)) < 0.1] = np.inf
    policy = upstream_eviction(features, boundaries, embeddings, layers)
    return Case(
        policy=policy,
        layers=layers,
        boundaries=boundaries,
        observations=observations,
        logits="scores",
        target_us=10.0,
    )


def packed(case: Case) -> AnyArray:
    """The observations one after the other, each the bytes of its features in the order of the graph's inputs."""
    columns = [
        np.ascontiguousarray(case.observations[spec.name]).reshape(COUNT, -1).view(np.uint8)
        for spec in case.policy.graph.inputs
    ]
    return np.concatenate(columns, axis=1)


def cpp_loop(folder: Path) -> Path:
    program = folder / "loop"
    compiler = find_compiler().path
    subprocess.run([compiler, "-std=c++17", "-O2", "-march=native", "-w", LOOP, "-o", program, "-ldl"], check=True)
    return program


def l1_bytes_per_s(loop: Path) -> float:
    return float(subprocess.run([loop, "bandwidth"], capture_output=True, text=True, check=True).stdout)


def litert_calls(directory: Path, policy: Policy, *, delegates: bool) -> tuple[Callable[..., AnyArray], object]:
    """A function of one observation, and the interpreter behind it."""
    from ai_edge_litert import interpreter as litert

    resolver = litert.OpResolverType.AUTO if delegates else litert.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    made = litert.Interpreter(str(directory / "model.tflite"), experimental_op_resolver_type=resolver, num_threads=1)
    made.allocate_tensors()
    inputs = {detail["name"]: detail["index"] for detail in made.get_input_details()}
    outputs = [detail["index"] for detail in made.get_output_details()]
    names = [(spec.name, inputs[f"action_{spec.name}:0"]) for spec in policy.graph.inputs]

    def decide(row: Mapping[str, AnyArray]) -> list[AnyArray]:
        for name, index in names:
            made.set_tensor(index, row[name])
        made.invoke()
        return [made.get_tensor(index) for index in outputs]

    return decide, made


def cpu_seconds() -> float:
    """Of this process and of the children that it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def measure_ours(case: Case, folder: Path, loop: Path, expected: Mapping[str, AnyArray], table: Table) -> None:
    before = cpu_seconds()
    compiled = compile_policy(case.policy, folder / "policy.so")
    print(f"  emit and compile: {cpu_seconds() - before:.2f} s of CPU, for {compiled.isa}")
    bandwidth = l1_bytes_per_s(loop)
    weights = 4 * sum(layer.weights.size + layer.bias.size for layer in case.layers)
    print(f"  {weights} bytes of weights, L1 {bandwidth / 1e9:.0f} GB/s")
    table.add("limit: weights once from L1", weights / bandwidth)
    packed(case).tofile(folder / "in")
    command = [loop, "decide", compiled.path, folder / "in", str(COUNT)]
    table.add("ours, C++ loop", float(subprocess.run(command, capture_output=True, text=True, check=True).stdout))
    batch = CompiledBatch(compiled.path, case.policy.graph, COUNT)
    table.check("ours", batch.evaluate(case.observations), expected, case)
    table.add("ours, Python, a batch of 1,000", quickest(batch.run) / COUNT)
    one = CompiledBatch(compiled.path, case.policy.graph, 1)
    rows, advice = list(packed(case)), one.outputs[case.policy.advice]

    def decide_fifty() -> None:
        for row in rows[:50]:
            one.block[:] = row
            one.run()
            advice[0]

    table.add("ours, Python, one by one", quickest(decide_fifty) / 50)


def measure_litert(case: Case, folder: Path, expected: Mapping[str, AnyArray], table: Table) -> None:
    try:
        import ai_edge_litert  # noqa: F401
    except ImportError:
        print("  LiteRT is not installed (pip install 'pymlgo[tflite]'): left out")
        return
    directory = folder / "policy"
    save_policy(case.policy, directory)
    rows = [{name: array[row] for name, array in case.observations.items()} for row in range(COUNT)]
    for delegates in (False, True):
        decide, interpreter = litert_calls(directory, case.policy, delegates=delegates)
        name = f"LiteRT {'with XNNPACK' if delegates else 'without delegates'}"
        outputs = [decide(row) for row in rows]
        found = {
            output.name: np.stack([each[index] for each in outputs])
            for index, output in enumerate(case.policy.graph.outputs)
        }
        table.check(name, found, expected, case)
        table.add(f"{name}, set + invoke + get", quickest(lambda decide=decide: decide(rows[0])))
        table.add(f"{name}, invoke alone", quickest(interpreter.invoke))


def measure_aot(case: Case, folder: Path, expected: Mapping[str, AnyArray], table: Table) -> None:
    """TensorFlow's object of the same network, where a Python with TensorFlow is named."""
    python = os.environ.get("PYMLGO_TF_PYTHON")
    if not python or case.policy.problem != "inlining":
        return
    arrays = {f"boundaries/{name}": each for name, each in case.boundaries.items()}
    for index, layer in enumerate(case.layers):
        arrays[f"weights/{index}"], arrays[f"bias/{index}"] = layer.weights, layer.bias
    np.savez(folder / "network.npz", **arrays)
    packed(case).tofile(folder / "in")
    command = [python, AOT_SCRIPT, folder / "network.npz", folder / "in", folder / "aot"]
    for line in subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines():
        name, seconds, decisions = line.split("\t")
        made = np.fromfile(decisions, np.int64)
        equal = float(np.mean(made == expected[case.policy.advice].ravel()))
        print(f"  {name}: {equal:.2%} equal decisions")
        if equal < 0.999:
            table.wrong.append(f"{name}: {equal:.2%} equal decisions")
        table.add(name, float(seconds))


def measure(case: Case) -> Table:
    table = Table()
    print(
        f"{case.policy.problem}: {sum(len(np.unique(each)) for each in case.boundaries.values())} distinct boundaries"
    )
    interpreter = Interpreter(case.policy.graph)
    expected = interpreter.batch(case.observations)
    with tempfile.TemporaryDirectory(prefix="mlgo-bench-") as name:
        folder = Path(name)
        loop = cpp_loop(folder)
        measure_ours(case, folder, loop, expected, table)
        measure_litert(case, folder, expected, table)
        measure_aot(case, folder, expected, table)
    table.add("numpy interpreter, a batch of 1,000", quickest(lambda: interpreter.batch(case.observations)) / COUNT)
    row = {name: array[0] for name, array in case.observations.items()}
    table.add("numpy interpreter, one by one", quickest(lambda: interpreter(row)))
    return table


def main() -> int:
    wrong: list[str] = []
    for make in (inliner, eviction):
        case = make(np.random.default_rng(7))
        table = measure(case)
        ours = dict(table.rows)["ours, C++ loop"]
        print(f"\n  {'backend':<44} {'us a decision':>14} {'to our C++ loop':>16}")
        for name, microseconds in table.rows:
            print(f"  {name:<44} {microseconds:>14.3f} {microseconds / ours:>15.2f}x")
        print(f"  target of our C++ loop: {case.target_us} us\n")
        wrong += table.wrong
    for each in wrong:
        print(f"WRONG: {each}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
