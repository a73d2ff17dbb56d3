#!/usr/bin/env python3
"""Makes models with the real TensorFlow, for tests: run it under a Python that has TensorFlow 2.15, without pymlgo.

    python3.11 -m venv /tmp/tf && /tmp/tf/bin/pip install tensorflow-cpu==2.15.1
    /tmp/tf/bin/python scripts/tf_oracle.py golden tests/policy/golden    # what is committed there
    /tmp/tf/bin/python scripts/tf_oracle.py saved-model inliner OUT       # a SavedModel, as upstream's trainer saves it

The networks are upstream's in kind (google/ml-compiler-opt: bucketized features, their squares, dense layers, argmax),
with few boundaries and units, so that the files stay small. For each the golden folder gets what the TensorFlow Lite
converter wrote, and inputs with the outputs that TensorFlow itself computed for them.
"""

import hashlib
import itertools
import json
import pathlib
import platform
import subprocess
import sys
import tempfile

import numpy as np
import tensorflow as tf

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONVERTER = ROOT / "src/pymlgo/policy/saved_model_to_tflite.py"
SEED = 20
SAMPLES = 64

INLINER_FEATURES = (
    "callee_basic_block_count",
    "caller_users",
    "cost_estimate",
    "is_multiple_blocks",
    "nr_ctant_params",
    "switch_penalty",
)
REGISTERS = 33


class Dense(tf.Module):
    """Dense layers with relu but for the last."""

    def __init__(self, sizes, rng):
        super().__init__()
        shapes = itertools.pairwise(sizes)
        self.weights = [tf.Variable(rng.normal(0, 1 / np.sqrt(a), (a, b)).astype(np.float32)) for a, b in shapes]
        self.biases = [tf.Variable(rng.normal(0, 0.1, b).astype(np.float32)) for b in sizes[1:]]

    def __call__(self, x):
        """The last layer's values for rows x."""
        for index, (weights, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = tf.matmul(x, weights) + bias if len(x.shape) == 2 else tf.tensordot(x, weights, 1) + bias
            if index < len(self.weights) - 1:
                x = tf.nn.relu(x)
        return x


def bucketized(x, boundaries):
    """Upstream's preprocessing: the share of boundaries reached, and its square."""
    share = tf.cast(tf.raw_ops.Bucketize(input=x, boundaries=boundaries), tf.float32) / len(boundaries)
    return [share, share * share]


class Inliner(tf.Module):
    """Upstream's inlining network in small."""

    def __init__(self):
        super().__init__()
        rng = np.random.default_rng(SEED)
        self.boundaries = {name: sorted(rng.integers(0, 300, 40).tolist()) for name in INLINER_FEATURES}
        self.dense = Dense([2 * len(INLINER_FEATURES), 16, 8, 2], rng)

    def signature(self):
        """The inputs of `action`, as LLVM has them."""
        specs = {name: tf.TensorSpec([1], tf.int64, name) for name in INLINER_FEATURES}
        specs["inlining_default"] = tf.TensorSpec([1], tf.int64, "inlining_default")
        specs["step_type"] = tf.TensorSpec([1], tf.int32, "step_type")
        specs["reward"] = tf.TensorSpec([1], tf.float32, "reward")
        specs["discount"] = tf.TensorSpec([1], tf.float32, "discount")
        return specs

    @tf.function
    def action(self, **inputs):
        """The decision, and what it was made of."""
        columns = []
        for name in INLINER_FEATURES:
            columns += bucketized(tf.reshape(inputs[name], [1, 1]), self.boundaries[name])
        logits = self.dense(tf.concat(columns, axis=-1))
        return {
            "inlining_decision": tf.argmax(logits, axis=-1),
            "CategoricalProjectionNetwork_logits": logits,
        }

    def samples(self, rng):
        """Random inputs, with the edges among them."""
        values = {name: rng.integers(-20, 320, (SAMPLES, 1)) for name in INLINER_FEATURES}
        values["cost_estimate"][:4, 0] = (2**24 + 1, 2**53 + 1, -(2**40), 0)
        return values


class Eviction(tf.Module):
    """Upstream's eviction network in small: embeddings, an infinite feature, a mask."""

    INTEGERS = ("is_free", "mask", "max_stage")
    FLOATS = ("liverange_size", "use_def_density")

    def __init__(self):
        super().__init__()
        rng = np.random.default_rng(SEED + 1)
        self.boundaries = {name: sorted(rng.normal(0, 1, 40).tolist()) for name in (*self.FLOATS, "progress")}
        self.embedding = tf.Variable(rng.normal(0, 1, (7, 4)).astype(np.float32))
        self.dense = Dense([1 + 4 + 2 + 3 + 2, 16, 1], rng)

    def signature(self):
        """The inputs of `action`, as LLVM has them."""
        specs = {name: tf.TensorSpec([1, REGISTERS], tf.int64, name) for name in self.INTEGERS}
        specs |= {name: tf.TensorSpec([1, REGISTERS], tf.float32, name) for name in self.FLOATS}
        specs["progress"] = tf.TensorSpec([1], tf.float32, "progress")
        return specs

    @tf.function
    def action(self, **inputs):
        """The decision, and what it was made of."""

        def column(x):
            return tf.expand_dims(x, -1)

        density = inputs["use_def_density"]
        infinite = tf.math.is_inf(density)
        finite = tf.where(infinite, tf.ones_like(density), density)
        progress = tf.tile(tf.expand_dims(inputs["progress"], -1), [1, REGISTERS])
        columns = [
            column(tf.cast(inputs["is_free"], tf.float32)),
            tf.gather(self.embedding, inputs["max_stage"]),
            *bucketized(column(inputs["liverange_size"]), self.boundaries["liverange_size"]),
            column(tf.cast(infinite, tf.float32)),
            *bucketized(column(finite), self.boundaries["use_def_density"]),
            *bucketized(column(progress), self.boundaries["progress"]),
        ]
        scores = tf.squeeze(self.dense(tf.concat(columns, axis=-1)), -1)
        masked = tf.where(tf.equal(inputs["mask"], 0), tf.float32.min, scores)
        return {"index_to_evict": tf.argmax(masked, axis=-1), "scores": masked}

    def samples(self, rng):
        """Random inputs, with the edges among them."""
        shape = (SAMPLES, 1, REGISTERS)
        values = {name: rng.integers(0, 2, shape) for name in self.INTEGERS}
        values["max_stage"] = rng.integers(0, 7, shape)
        values["mask"][0] = 0
        values |= {name: rng.normal(0, 1, shape).astype(np.float32) for name in self.FLOATS}
        values["use_def_density"][rng.random(shape) < 0.1] = np.inf
        values["progress"] = rng.random((SAMPLES, 1)).astype(np.float32)
        return values


MODELS = {"inliner": Inliner, "eviction": Eviction}


def save(name, folder):
    """Save a model with the signature `action`; the model."""
    model = MODELS[name]()
    signature = model.action.get_concrete_function(**model.signature())
    tf.saved_model.save(model, str(folder), signatures={"action": signature})
    return model


def outputs_of(model, values):
    """What TensorFlow computes for each sample, stacked."""
    made = []
    for index in range(SAMPLES):
        inputs = {}
        for name, spec in model.signature().items():
            value = values[name][index] if name in values else np.zeros(spec.shape)
            inputs[name] = tf.constant(value, spec.dtype)
        made.append({name: each.numpy() for name, each in model.action(**inputs).items()})
    return {name: np.stack([each[name] for each in made]) for name in made[0]}


def golden(folder):
    """Write the converter's files and TensorFlow's answers for every model."""
    for name in MODELS:
        target = folder / name
        target.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as saved:
            model = save(name, saved)
            subprocess.run([sys.executable, str(CONVERTER), saved, str(target)], check=True)
        values = model.samples(np.random.default_rng(SEED + 2))
        made = outputs_of(model, values)
        arrays = {f"input_{key}": value for key, value in values.items()}
        arrays |= {f"output_{key}": value for key, value in made.items()}
        np.savez_compressed(target / "expected.npz", **arrays)
        describe(folder, name)


def describe(folder, name):
    """The `.toml` beside the files: how they were made, and their checksums."""
    files = sorted(path for path in (folder / name).iterdir())
    lines = [
        'command = "python scripts/tf_oracle.py golden tests/policy/golden"',
        f'tensorflow = "{tf.__version__}"',
        f'python = "{platform.python_version()}"',
        f'machine = "{platform.machine()}"',
        "[sha256]",
        *(f'"{path.name}" = "{hashlib.sha256(path.read_bytes()).hexdigest()}"' for path in files),
    ]
    (folder / f"{name}.toml").write_text("\n".join(lines) + "\n")


def main(arguments):
    """The command line."""
    match arguments:
        case ["golden", folder]:
            golden(pathlib.Path(folder))
        case ["saved-model", name, folder] if name in MODELS:
            save(name, folder)
            print(json.dumps({"saved_model": folder, "tensorflow": tf.__version__}))
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
