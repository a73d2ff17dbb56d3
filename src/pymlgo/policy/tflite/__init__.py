"""The TFLite form of a policy: what LLVM's development mode loads, read and written without TensorFlow."""
