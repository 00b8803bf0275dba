"""From images to results, and from results to files and a page."""
from .export import export_maps
from .inferencer import ABNNInferencer
from .inputs import Frames
from .large import export_large
from .result import MapResult

__all__ = [
    'ABNNInferencer', 'Frames', 'MapResult', 'export_large', 'export_maps'
]
