#!/usr/bin/env python3
"""Times what LLVM compiles in today: TensorFlow's ahead-of-time object of upstream's inlining network.

Run by bench/bench_policy.py under the Python that PYMLGO_TF_PYTHON names (TensorFlow 2.15, without pymlgo):

    tf_aot_time.py NETWORK.npz OBSERVATIONS FOLDER

NETWORK.npz holds `boundaries/<feature>`, `weights/<layer>` and `bias/<layer>`; OBSERVATIONS holds the features of each
observation as int64, in the order of the archive. For each target CPU a line goes to stdout: what was timed, CPU
seconds a decision from a C++ loop, and the file with the decisions as int64, separated by tabs.

As LLVM's TensorFlowCompile.cmake has it (saved_model_cli aot_compile_cpu), which names no target CPU and so gets SSE2;
once more with one that has AVX2.
"""

import pathlib
import subprocess
import sys

import numpy as np
import tensorflow as tf

TENSORFLOW = pathlib.Path(tf.__file__).parent
RUNTIME = (
    "tensorflow/compiler/tf2xla/xla_compiled_cpu_function.cc",
    "xla/cpu_function_runtime.cc",
    "xla/executable_run_options.cc",
    "xla/service/custom_call_status.cc",
    "xla/service/cpu/runtime_single_threaded_matmul_f32.cc",
)
"""What such an object calls; the whole runtime takes ten times as long to compile."""

LOOP = """
#include "model.h"
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <time.h>
#include <vector>
static double seconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return now.tv_sec + 1e-9 * now.tv_nsec;
}
int main(int, char **arguments) {
  const std::vector<const char *> names{@NAMES@};
  Model model;
  std::vector<int64_t *> inputs;
  for (const char *name : names) {
    const int index = model.LookupArgIndex(std::string("feed_") + name);
    inputs.push_back(index < 0 ? nullptr : static_cast<int64_t *>(model.arg_data(index)));
  }
  const int result = model.LookupResultIndex("fetch_inlining_decision");
  std::ifstream in(arguments[1], std::ios::binary | std::ios::ate);
  std::vector<int64_t> data(in.tellg() / 8), decisions;
  in.seekg(0).read(reinterpret_cast<char *>(data.data()), data.size() * 8);
  const size_t count = data.size() / names.size();
  double best = 1e9;
  for (double end = seconds() + 3; seconds() < end;) {
    decisions.clear();
    const double start = seconds();
    for (size_t at = 0; at < count; ++at) {
      for (size_t input = 0; input < inputs.size(); ++input)
        if (inputs[input])
          *inputs[input] = data[at * names.size() + input];
      model.Run();
      decisions.push_back(*static_cast<int64_t *>(model.result_data(result)));
    }
    best = std::min(best, (seconds() - start) / count);
  }
  std::ofstream(arguments[2], std::ios::binary).write(reinterpret_cast<char *>(decisions.data()), count * 8);
  std::printf("%.9g\\n", best);
}
"""


def save_model(network, names, folder):
    """The network as upstream's trainer saves it: signature `action`, tag `serve`, an input for each feature."""
    depth = sum(name.startswith("weights/") for name in network.files)
    layers = [(network[f"weights/{index}"], network[f"bias/{index}"]) for index in range(depth)]

    def decide(**features):
        columns = []
        for name in names:
            boundaries = network[f"boundaries/{name}"]
            bucket = tf.raw_ops.Bucketize(input=tf.reshape(features[name], (1, 1)), boundaries=boundaries.tolist())
            share = tf.cast(bucket, tf.float32) / len(boundaries)
            columns += [share, share * share]
        x = tf.concat(columns, axis=1)
        for index, (weights, bias) in enumerate(layers):
            x = tf.matmul(x, tf.constant(weights)) + tf.constant(bias)
            if index < len(layers) - 1:
                x = tf.nn.relu(x)
        return {"inlining_decision": tf.argmax(x, axis=1)}

    module = tf.Module()
    specs = {name: tf.TensorSpec((1,), tf.int64, name=name) for name in names}
    module.action = tf.function(decide).get_concrete_function(**specs)
    tf.saved_model.save(module, str(folder), signatures={"action": module.action})


def run(*command):
    """Run a command; what it says goes to stderr."""
    subprocess.run([str(each) for each in command], check=True, stdout=sys.stderr)


def compile_runtime(folder):
    """The objects of TensorFlow's runtime for such models."""
    objects = []
    for name in RUNTIME:
        made = folder / f"{pathlib.Path(name).stem}.o"
        source = TENSORFLOW / "xla_aot_runtime_src" / name
        run("g++", "-std=c++17", "-O2", "-w", f"-I{TENSORFLOW}/include", "-c", source, "-o", made)
        objects.append(made)
    return objects


def main(network_file, observations, folder):
    """Build, run and report for each target."""
    folder.mkdir(parents=True, exist_ok=True)
    network = np.load(network_file)
    names = [each.removeprefix("boundaries/") for each in network.files if each.startswith("boundaries/")]
    save_model(network, names, folder / "saved")
    runtime = compile_runtime(folder)
    for target, options in (("as LLVM builds it", ()), ("for AVX2", ("--target_cpu", "haswell"))):
        made = folder / target.replace(" ", "-")
        made.mkdir(exist_ok=True)
        cli = pathlib.Path(sys.executable).parent / "saved_model_cli"
        run(cli, "aot_compile_cpu", "--multithreading", "false", "--dir", folder / "saved", "--tag_set", "serve",
            "--signature_def_key", "action", "--output_prefix", made / "model", "--cpp_class", "Model",
            "--target_triple", "x86_64-pc-linux", *options)  # fmt: skip
        (made / "loop.cpp").write_text(LOOP.replace("@NAMES@", ", ".join(f'"{name}"' for name in names)))
        run("g++", "-std=c++17", "-O2", "-w", f"-I{TENSORFLOW}/include", f"-I{made}", made / "loop.cpp",
            made / "model.o", *runtime, "-o", made / "loop")  # fmt: skip
        loop = [str(made / "loop"), str(observations), str(made / "decisions")]
        seconds = subprocess.run(loop, check=True, capture_output=True, text=True).stdout.strip()
        print(f"TensorFlow AOT {target}, C++ loop\t{seconds}\t{made / 'decisions'}")


if __name__ == "__main__":
    main(*(pathlib.Path(each) for each in sys.argv[1:4]))
