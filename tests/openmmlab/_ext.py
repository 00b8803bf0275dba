"""Stands in for ``mmcv._ext``, which ``mmcv-lite`` lacks.

mmseg 1.2.2 imports ``mmcv.ops``, whose modules ask this one for compiled
functions. Every name exists here and none can be called, so that a test
which needed one would fail. ``make test-openmmlab`` links it into mmcv.
"""


def __getattr__(name):
    if name.startswith('__'):
        raise AttributeError(name)

    def missing(*args, **kwargs):
        raise NotImplementedError(f'mmcv._ext.{name} is not compiled')

    return missing
