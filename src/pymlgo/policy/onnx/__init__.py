"""ONNX in and out; needs the extra `onnx`, which is imported where it is used."""
