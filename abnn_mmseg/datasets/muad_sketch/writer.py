"""Write a MUAD-sketch to disk: MUAD's folders, then a manifest."""
import json
import multiprocessing
import os
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import cv2
import numpy as np

from abnn_mmseg.datasets.muad_sketch import ids
from abnn_mmseg.datasets.muad_sketch.scene import draw_scene
from abnn_mmseg.utils.console import progress

# Raise it when a change of the drawing code changes pixels.
VERSION = 2
SPLITS = ('train', 'val', 'test_id', 'test_ood')
DEFAULT_COUNTS = dict(train=400, val=60, test_id=60, test_ood=100)
MANIFEST = 'muad_sketch.json'
UNFINISHED = 'muad_sketch.unfinished.json'
FOLDERS = ('leftImg8bit', 'leftLabel')


def make_muad_sketch(root,
                     counts=None,
                     size=(256, 128),
                     seed=0,
                     workers=None,
                     force=False):
    """Draw the splits of a MUAD-sketch.

    Image i of a split depends on the seed, the split, i and the size only.
    A folder that holds the same sketch already is left as it is.

    Args:
        root (str or Path): Where the split folders go.
        counts (dict, optional): Images per split; of ``train``, ``val``,
            ``test_id`` and ``test_ood``. Defaults to 400, 60, 60 and 100.
        size (tuple[int]): Width and height. Defaults to (256, 128).
        seed (int): Another seed, other streets. Defaults to 0.
        workers (int, optional): Processes; does not change the result.
            Defaults to the number of CPUs.
        force (bool): Replace a sketch of other parameters. Defaults to
            False.

    Returns:
        dict: The manifest: the parameters and the pixels of each raw id.
    """
    root = Path(root)
    recipe = make_recipe(counts, size, seed)
    done = read_json(root / MANIFEST)
    if done and all(done[key] == recipe[key] for key in recipe):
        return done
    clear(root, recipe, force)
    write_json(root / UNFINISHED, recipe)
    pixels = draw_splits(root, recipe, workers)
    manifest = dict(recipe, pixels=pixels)
    write_json(root / UNFINISHED, manifest)
    os.replace(root / UNFINISHED, root / MANIFEST)
    return manifest


def make_recipe(counts, size, seed):
    """All that the pixels depend on; refuses what cannot be drawn."""
    counts = DEFAULT_COUNTS if counts is None else counts
    unknown = sorted(set(counts) - set(SPLITS))
    if unknown or any(n < 0 for n in counts.values()):
        raise ValueError(f'counts={counts} must give numbers >= 0 for some '
                         f'of the splits {", ".join(SPLITS)}.')
    if len(size) != 2 or min(size) < 32:
        raise ValueError(f'size={tuple(size)} must be (width, height), each '
                         'at least 32 pixels, for example (256, 128).')
    if seed < 0:
        raise ValueError(f'seed={seed} must be 0 or more.')
    return dict(generator='MUAD-sketch', version=VERSION, seed=int(seed),
                size=[int(side) for side in size],
                counts={s: int(counts.get(s, 0)) for s in SPLITS})


def clear(root, recipe, force):
    """Make room for a sketch, without touching what is not one."""
    found = read_json(root / MANIFEST) or read_json(root / UNFINISHED)
    ours = [path for split in SPLITS for folder in FOLDERS
            for path in (root / split / folder).glob(f'*_{folder}.png')]
    if ours and not found:
        raise ValueError(f'{root} holds images that were not drawn by '
                         'MUAD-sketch; choose another folder.')
    same = found and all(found.get(key) == recipe[key] for key in recipe)
    if found and not same and not force:
        raise ValueError(
            f'{root} holds a MUAD-sketch of other parameters '
            f'({summary(found)}; asked for: {summary(recipe)}). Use --force '
            '(force=True) to replace it, or choose another folder.')
    (root / MANIFEST).unlink(missing_ok=True)
    for path in ours:
        path.unlink()
    for split in SPLITS:
        for folder in FOLDERS:
            (root / split / folder).mkdir(parents=True, exist_ok=True)


def summary(recipe):
    """The settings of a dataset as text."""
    return ', '.join(f'{key} {recipe.get(key)}'
                     for key in ('version', 'seed', 'size', 'counts'))


def draw_splits(root, recipe, workers):
    """Draw every image; returns the pixels of each raw id, by split."""
    jobs = [(root, recipe['seed'], recipe['size'], split, i)
            for split in SPLITS for i in range(recipe['counts'][split])]
    workers = min(workers or os.cpu_count() or 1, max(len(jobs) // 8, 1))
    totals = {split: np.zeros(256, int) for split in SPLITS}
    with one_thread(), processes(workers) as run:
        for split, pixels in progress(run(draw_one, jobs), 'MUAD-sketch',
                                      len(jobs)):
            totals[split] += pixels
    return {split: {str(i): int(n) for i, n in enumerate(total) if n}
            for split, total in totals.items()}


@contextmanager
def one_thread():
    """Stop OpenCV's threads: a forked worker would wait for them forever."""
    before = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        yield
    finally:
        cv2.setNumThreads(before)


@contextmanager
def processes(workers):
    """A ``map`` over processes, or the plain one for a single worker."""
    if workers == 1:
        yield map
        return
    # Fork where it exists: a worker need not import everything again.
    methods = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context(
        'fork' if 'fork' in methods else None)
    with context.Pool(workers, cv2.setNumThreads, (1,)) as pool:
        yield partial(pool.imap_unordered, chunksize=4)


def draw_one(job):
    """Draw and write one image with its label; returns its pixel counts."""
    root, seed, size, split, i = job
    rng = np.random.default_rng([seed, SPLITS.index(split), i, *size])
    image, label = draw_scene(rng, tuple(size), ood=split == 'test_ood')
    write_png(root, split, 'leftImg8bit', i, image[..., ::-1])
    write_png(root, split, 'leftLabel', i, label)
    return split, np.bincount(label.ravel(), minlength=256)


def write_png(root, split, folder, i, pixels):
    """Write one picture of a split."""
    path = root / split / folder / f'{i:06d}_{folder}.png'
    _, data = cv2.imencode('.png', pixels)
    write(path, data.tobytes())


def write(path, data):
    """All of a file or nothing of it."""
    part = path.with_name(f'.{path.name}.{os.getpid()}.part')
    try:
        part.write_bytes(data)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def write_json(path, content):
    """Write a JSON file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, (json.dumps(content, indent=1) + '\n').encode())


def read_json(path):
    """The content of a JSON file; None if there is no file."""
    return json.loads(path.read_text()) if path.is_file() else None


def class_shares(manifest):
    """The share of pixels of each raw id, by split, in per cent."""
    shares = {}
    for split, pixels in manifest['pixels'].items():
        total = sum(pixels.values()) or 1
        shares[split] = {
            i: 100 * pixels.get(str(i), 0) / total
            for i in (*range(len(ids.NAMES)), ids.VOID)}
    return shares
