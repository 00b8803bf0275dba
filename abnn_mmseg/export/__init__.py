"""Predict images and write the results to files and a page."""
from abnn_mmseg.export.export import export_maps
from abnn_mmseg.export.inferencer import ABNNInferencer
from abnn_mmseg.export.inputs import Frames
from abnn_mmseg.export.result import MapResult

__all__ = ['ABNNInferencer', 'Frames', 'MapResult', 'export_maps']
