"""Results to write, and writers for them."""
import numpy as np

from abnn_mmseg.export.formats import build_writers
from abnn_mmseg.export.result import MapResult

CLASSES = ['road', 'car', 'sky']
PALETTE = [[128, 64, 128], [0, 0, 142], [70, 130, 180]]


def make_result(name='a/b/000012', seed=0, top=1.0986, size=(24, 36)):
    rng = np.random.default_rng(seed)
    return MapResult(
        name,
        prediction=rng.integers(0, 3, size),
        maps={'entropy': rng.uniform(0, top, size).astype(np.float32),
              'energy': rng.normal(0, 9, size).astype(np.float32)},
        image=rng.integers(0, 256, (*size, 3), dtype=np.uint8))


def make_writer(name, folder, scores=('entropy', ), **settings):
    if name in ('mask', 'regions', 'pseudo-labels'):
        settings.setdefault('threshold', 0.5)
    return build_writers([name], folder, scores, classes=CLASSES,
                         palette=PALETTE, **settings)[0]


def files(folder):
    return sorted(str(path.relative_to(folder))
                  for path in folder.rglob('*') if path.is_file())


def contents(folder):
    """All files but the journal, of which each process has one."""
    return {path.relative_to(folder).as_posix(): path.read_bytes()
            for path in folder.rglob('*')
            if path.is_file() and path.suffix != '.jsonl'}
