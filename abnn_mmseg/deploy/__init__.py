"""The posterior as plain tensor code: ONNX and torch.export."""
