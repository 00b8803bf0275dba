"""Match the images of a folder with label files, by stem."""
import os.path as osp
import re
from dataclasses import dataclass, field
from typing import Optional

from mmengine import fileio

from abnn_mmseg.utils.files import files_below

EXTENSIONS = ('.png', '.jpg', '.jpeg', '.webp')


@dataclass
class Pairs:
    """Image and label files matched by stem, and files without partner.

    Attributes:
        matched (list[tuple]): (image, label) paths in natural order; the
            label is None if there is no label folder.
        problems (list[str]): One sentence for each file without partner.
    """
    matched: list[tuple[str, Optional[str]]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def natural_key(name: str) -> tuple:
    """Sort key that puts ``frame2`` before ``frame10``."""
    parts = re.split(r'(\d+)', name)
    return [int(p) if i % 2 else p for i, p in enumerate(parts)], name


def files_by_stem(folder: str,
                  suffix: str = '',
                  backend_args: Optional[dict] = None,
                  pattern: Optional[str] = None
                  ) -> tuple[dict[str, str], list[str]]:
    """Map stem -> path of all image files below ``folder``.

    Args:
        folder (str): Searched with its sub-folders.
        suffix (str): Text after the stem. With an extension
            (``'_label.png'``) it is the end of the name; without one
            (``'_label'``, ``''``) any of ``EXTENSIONS`` may follow.
        backend_args (dict, optional): mmengine file backend.
        pattern (str, optional): Regular expression whose group is the stem.
            Defaults to the whole name.

    Returns:
        tuple: The files, and a sentence for each file whose stem is used
        twice or does not match the pattern.
    """
    any_extension = not suffix.lower().endswith(EXTENSIONS)
    files: dict[str, str] = {}
    problems: list[str] = []
    for name in sorted(_names(folder, backend_args)):
        rest, extension = osp.splitext(name)
        if extension.lower() not in EXTENSIONS:
            continue
        stem = rest if any_extension else name
        if not stem.endswith(suffix):
            continue
        stem = stem[:len(stem) - len(suffix)].replace('\\', '/')
        path = fileio.join_path(folder, name, backend_args=backend_args)
        if pattern:
            found = re.search(pattern, stem)
            if not found:
                problems.append(f'{path} does not follow stem_pattern.')
                continue
            stem = found.group(1)
        if stem in files:
            problems.append(f'{files[stem]} and {path} have the same stem.')
        files.setdefault(stem, path)
    return files, problems


def _names(folder: str, backend_args: Optional[dict]) -> list[str]:
    """Paths below a folder, without hidden files."""
    if backend_args is None and osp.isdir(folder):
        # mmengine would follow circular links forever.
        return [osp.relpath(path, folder) for path in files_below(folder)
                if not path.name.startswith('.')]
    return list(fileio.list_dir_or_file(
        folder, list_dir=False, recursive=True, backend_args=backend_args))


def match_pairs(images: dict[str, str],
                labels: Optional[dict[str, str]],
                stems: Optional[list[str]] = None) -> Pairs:
    """Match images with labels.

    Args:
        images (dict): Stem -> image path.
        labels (dict, optional): Stem -> label path; None without labels.
        stems (list[str], optional): Use only these, in this order. Without
            them all files are used, and a label without image is a problem.
    """
    pairs = Pairs()
    for stem in stems or sorted(images, key=natural_key):
        if stem not in images:
            pairs.problems.append(f'no image for listed name {stem!r}.')
        elif labels is None:
            pairs.matched.append((images[stem], None))
        elif stem not in labels:
            pairs.problems.append(f'image without label: {images[stem]}')
        else:
            pairs.matched.append((images[stem], labels[stem]))
    if labels is not None and stems is None:
        lonely = sorted(set(labels) - set(images), key=natural_key)
        pairs.problems += [f'label without image: {labels[s]}' for s in lonely]
    return pairs
