"""Runs under a Python with TensorFlow 2.15, without pymlgo: SAVED_MODEL_DIR OUTPUT_DIR.

Converts the signature `action` to `model.tflite` and writes `output_spec.json` beside it, for LLVM's development mode.
Exits with 4, and says why on stderr, where the model is none of LLVM's.
"""

import importlib
import json
import pathlib
import sys

DECISIONS = ("inlining_decision", "index_to_evict", "priority")
TYPES = {"float32": "float", "int64": "int64_t", "int32": "int32_t"}


def main(saved_model: str, output: str) -> int:
    """Convert; the exit code."""
    tf = importlib.import_module("tensorflow")
    loaded = tf.saved_model.load(saved_model)
    if "action" not in loaded.signatures:
        print(f"no signature 'action', found {', '.join(loaded.signatures) or 'none'}", file=sys.stderr)
        return 4
    signature = loaded.signatures["action"]
    converter = tf.lite.TFLiteConverter.from_saved_model(saved_model, signature_keys=["action"])
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    model = converter.convert()

    # The converter names output tensors by their place among the outputs' names in alphabetic order.
    interpreter = tf.lite.Interpreter(model_content=model)
    tensors = [detail["name"] for detail in interpreter.get_output_details()]
    outputs = signature.structured_outputs
    entries = []
    for port, name in enumerate(sorted(outputs)):
        tensor = next((each for each in tensors if each.endswith(f"PartitionedCall:{port}")), None)
        if tensor is None or outputs[name].dtype.name not in TYPES:
            print(f"output {name!r} ({outputs[name].dtype.name}) has no tensor that LLVM can log", file=sys.stderr)
            return 4
        detail = interpreter.get_output_details()[tensors.index(tensor)]
        spec = {
            "name": tensor.rpartition(":")[0],
            "type": TYPES[outputs[name].dtype.name],
            "port": port,
            "shape": [int(each) for each in detail["shape"]],
        }
        entries.append({"logging_name": name, "tensor_spec": spec})
    decision = [each for each in entries if each["logging_name"] in DECISIONS]
    if len(decision) != 1:
        print(f"no decision among the outputs {', '.join(sorted(outputs))}", file=sys.stderr)
        return 4
    ordered = decision + [each for each in entries if each is not decision[0]]

    folder = pathlib.Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.tflite").write_bytes(model)
    (folder / "output_spec.json").write_text(json.dumps(ordered, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
