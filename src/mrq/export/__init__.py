"""Policies as files for deployment, which need neither mrq nor, as ONNX, PyTorch."""
