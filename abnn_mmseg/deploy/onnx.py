"""A segmentor with all its networks as one ONNX file or exported program."""
import json
import logging
from pathlib import Path
from typing import Any, Optional, Union

import numpy as np
import torch
from mmengine.logging import print_log
from torch.export import Dim, ExportedProgram

from abnn_mmseg.compat import GraphError
from abnn_mmseg.deploy.pooling import with_pooling_for_all_sizes
from abnn_mmseg.deploy.segmentor import (
    DeployedSegmentor,
    changes_of,
    kept_guarantees,
    output_names,
)
from abnn_mmseg.models.guaranteed import current_guarantees
from abnn_mmseg.models.segmentor import BayesianSegmentor
from abnn_mmseg.utils.files import atomic_path

TOLERANCE = 1e-4


@torch.no_grad()
def export_program(model: BayesianSegmentor,
                   size: tuple[int, int] = (128, 256),
                   draws_per_pass: Optional[int] = None) -> ExportedProgram:
    """Export a program from an image to mean probability and maps.

    Args:
        model (BayesianSegmentor): In eval mode, on the CPU.
        size (tuple[int, int]): Height and width of the image to trace with.
            The program takes images of any size.
        draws_per_pass (int, optional): See :class:`DeployedSegmentor`.
    """
    if changes := changes_of(model):
        lost = ('; guarantees do not hold for it'
                if current_guarantees(model) else '')
        print_log(f'the graph {" and ".join(changes)}, so its maps are not '
                  f'those of the model{lost}.', 'current', logging.WARNING)
    image = example_image(size)
    deployed = DeployedSegmentor(model, image, draws_per_pass).eval()
    try:
        program = torch.export.export(
            deployed, (image, ), strict=False,
            dynamic_shapes=({1: Dim.DYNAMIC, 2: Dim.DYNAMIC}, ))
    except GraphError as error:
        raise ValueError(
            'the model computes with the size of the image in a way that a '
            'graph for all sizes cannot; a head with align_corners=True does '
            'so, write align_corners=False '
            f'({str(error).splitlines()[0]}).') from error
    for node in program.graph.nodes:
        tags = getattr(node.target, 'tags', ())
        # A dropout in eval mode is in the graph, too, but does nothing.
        if torch.Tag.nondeterministic_seeded in tags and (
                False not in node.args):
            raise ValueError(
                f'the graph of {type(model.posterior).__name__} holds the '
                f'random operator {node.target}; export a posterior whose '
                'networks are fixed, such as BNLPosterior.')
    for actual, expected in zip(program.module()(image), deployed(image)):
        if expected.is_floating_point():
            difference = float((actual - expected).abs().max())
            if not difference <= TOLERANCE * max(1, expected.abs().max()):
                raise ValueError(
                    f'the graph of {type(model).__name__} gives other results '
                    f'than the model (off by {difference:.2g}), so it is not '
                    'written; run the model itself, with ABNNInferencer.')
    return program


def check_packages() -> None:
    """Raise ImportError unless the packages for ONNX are installed."""
    try:
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f'the export needs {error.name}, which is not installed; run '
            "`pip install 'abnn-mmseg[onnx]'`.") from error


def save_onnx(program: ExportedProgram,
              model: BayesianSegmentor,
              path: Union[str, Path],
              metadata: Optional[dict] = None) -> dict[str, float]:
    """Write an exported program as one ONNX file; compare its outputs.

    Args:
        program (ExportedProgram): See :func:`export_program`.
        model (BayesianSegmentor): The model of the program.
        path (str): The file to write.
        metadata (dict, optional): Values to store in the file, as JSON.

    Returns:
        dict: See :func:`output_differences`.
    """
    check_packages()
    try:
        onnx: Any = torch.onnx.export(
            with_pooling_for_all_sizes(program), dynamo=True, verbose=False,
            input_names=['image'], output_names=output_names(model))
    except torch.onnx.OnnxExporterError as error:
        reason = str(error.__cause__ or error).strip().splitlines()[0]
        raise ValueError(
            f'{path} is not written: ONNX has no operator for a part of this '
            f'model ({reason}); a name that ends in .pt2 gives the program of '
            'torch.export.') from error
    _, height, width, _ = onnx.model.graph.inputs[0].shape
    onnx.rename_axes({height: 'height', width: 'width'})
    metadata = dict(metadata or {})
    if guarantees := kept_guarantees(model):
        metadata['guarantees'] = [
            dict(g.to_dict(), promise=g.sentence()) for g in guarantees]
    onnx.model.metadata_props.update(
        {key: json.dumps(value) for key, value in metadata.items()})
    with atomic_path(path) as temporary:
        onnx.save(temporary)
        differences = output_differences(
            model, temporary, example_image((160, 224), 1))
        if not all(d <= TOLERANCE for d in differences.values()):
            raise RuntimeError(
                f'{path} is not written: onnxruntime differs from PyTorch by '
                f'{differences}, more than {TOLERANCE}.')
    return differences


@torch.no_grad()
def output_differences(model: BayesianSegmentor, path: Union[str, Path],
                       image: torch.Tensor) -> dict[str, float]:
    """Largest difference of a file's outputs to PyTorch's, by name.

    It is relative to the largest value, if that is above 1. For label sets
    and alarms it is the share of different entries.
    """
    import onnxruntime
    session = onnxruntime.InferenceSession(
        str(path), providers=['CPUExecutionProvider'])
    try:
        actual = session.run(None, {'image': image.numpy()})
    except Exception as error:  # onnxruntime's have no common class
        raise RuntimeError(
            'onnxruntime cannot run the graph on an image of '
            f'{"x".join(map(str, image.shape[1:3]))} pixels '
            f'({str(error).splitlines()[0]}), so no file is kept; run the '
            'model itself, with ABNNInferencer.') from error
    expected = DeployedSegmentor(model, image)(image)
    return {
        output.name: _difference(a, e.numpy())
        for output, a, e in zip(session.get_outputs(), actual, expected)
    }


def _difference(actual: np.ndarray, expected: np.ndarray) -> float:
    if expected.dtype == bool:
        return float((actual != expected).mean())
    return float(np.abs(actual - expected).max() /
                 max(1, np.abs(expected).max()))


def example_image(size: tuple[int, int], seed: int = 0) -> torch.Tensor:
    """Random pixels, uint8 ``[1, H, W, 3]``."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(
        0, 256, (1, *size, 3), dtype=torch.uint8, generator=generator)
