"""MUAD-sketch: drawn streets in MUAD's folders, names and ids.

Scenes are planned (``street``, ``lots``, ``population``), drawn from far to
near (``ground``, ``roadside``, ``furniture``, ``vehicles``, ``people``,
``strangers``) on a ``canvas`` that keeps class, distance and material of
every pixel, and turned into photographs (``render``) under some ``weather``.
"""
from pathlib import Path

from abnn_mmseg.datasets.muad_sketch.scene import draw_scene
from abnn_mmseg.datasets.muad_sketch.writer import (
           DEFAULT_COUNTS,
           SPLITS,
           class_shares,
           make_muad_sketch,
)

# A network trained on it, convolutions in half precision.
BASE_CHECKPOINT = Path(__file__).with_name('base.pth')

__all__ = ['BASE_CHECKPOINT', 'DEFAULT_COUNTS', 'SPLITS', 'class_shares',
           'draw_scene', 'make_muad_sketch']
