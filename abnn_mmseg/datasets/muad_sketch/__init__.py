"""MUAD-sketch: drawn streets in MUAD's folders, names and ids.

Scenes are planned (``street``, ``lots``, ``population``), drawn from far to
near (``ground``, ``roadside``, ``furniture``, ``vehicles``, ``people``,
``strangers``) on a ``canvas`` that keeps class, distance and material of
every pixel, and turned into photographs (``render``) under some ``weather``.
"""
from abnn_mmseg.datasets.muad_sketch.scene import draw_scene
from abnn_mmseg.datasets.muad_sketch.writer import (
           DEFAULT_COUNTS,
           SPLITS,
           class_shares,
           make_muad_sketch,
)

__all__ = ['DEFAULT_COUNTS', 'SPLITS', 'class_shares', 'draw_scene',
           'make_muad_sketch']
