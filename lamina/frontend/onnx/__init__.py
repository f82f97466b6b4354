"""ONNX models: the file, its graph, and what becomes of each operator."""
