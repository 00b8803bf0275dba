"""Export a model with all its networks as one ONNX file or program.

The suffix of OUT decides: .onnx, or .pt2 for torch.export.
"""
from abnn_mmseg.cli.main import run_command

if __name__ == '__main__':
    run_command('onnx')
