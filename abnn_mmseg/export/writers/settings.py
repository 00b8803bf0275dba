"""Settings that all writers share."""
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional, Union

from abnn_mmseg.uncertainty import SMALL_SCORES, score_of, score_range
from abnn_mmseg.utils.choices import one_of

Range = tuple[float, float]


def slug(text: str) -> str:
    """A map's name as a file name: ``'base: msp'`` gives ``'base-msp'``."""
    return re.sub(r'[^\w.+]+', '-', text).strip('-.') or 'map'


def natural_range(score: str, num_classes: int) -> Optional[Range]:
    """Lowest and highest value a score can take, if there is such a range.

    Args:
        score: Name of the map. The name of a model before a colon is ignored:
            ``'base: msp'`` has the range of ``'msp'``.
        num_classes: C; for less than 2 the range is unknown.
    """
    if num_classes < 2:
        return None
    return score_range(score_of(score), num_classes)


@dataclass(frozen=True)
class WriterSettings:
    """What to write, where, and how to treat existing files.

    Args:
        folder: Output folder.
        scores: Names of the maps to write. The page compares the first one.
        classes: Class names, in the order of the ids.
        palette: One RGB triple per class.
        scale: Lowest and highest value of the colours of pictures: one pair
            for all scores or a dict of pairs by score. Defaults to the range
            that the score can take, or to one measured on the first images,
            so that pictures of a set can be compared.
        threshold: Pixels with at least this value count as anomalous: one
            number for all scores or a dict by score. Defaults to the middle
            of the range.
        dtype: ``'float32'`` or ``'float16'``, for npy and npz.
        colormap: ``'inferno'``, ``'magma'`` or ``'viridis'``.
        opacity: Weight of the map over the image in overlays.
        method: Name of the method in the benchmark's HDF5 layout.
        dataset: Name of the dataset in the benchmark's HDF5 layout.
        min_area: Regions with fewer pixels are left out.
        keep: Share of the pixels of an image that pseudo-labels keep, in
            (0, 1]. Defaults to those below the threshold.
        guarantees: Threshold and promise of the label sets and alarms to
            write, by risk.
        video: ``'overlay'``, or ``'side'`` for image and map side by side.
        fps: Frames per second of videos. Defaults to the rate at which the
            frames were written, for cameras.
        volumes: NIfTI files of the input, by the name that their slices share.
        part: Number of this process among those of all shards, used in the
            names of its journals. Defaults to ``rank``.
        title: Heading of the page.
        metrics: Rows of a table on the page, one dict per row.
        max_side: Longest side of pictures on the page, in pixels.
        overwrite: Replace existing files.
        resume: Continue in a folder with files of the same settings.
        rank: Number of this process. In ``close()`` rank 0 makes the tables
            and the page of what all processes wrote, so the other processes
            must close first.
        measured: Measured ranges of scores that use little of the range that
            they can take, such as mutual information. An export fills it in.
    """
    folder: Union[str, Path]
    scores: Sequence[str]
    classes: Sequence[str] = ()
    palette: Sequence[Sequence[int]] = ()
    scale: Union[None, Range, Mapping[str, Range]] = None
    threshold: Union[None, float, Mapping[str, float]] = None
    dtype: str = 'float32'
    colormap: str = 'inferno'
    opacity: float = 0.5
    method: str = 'ABNN'
    dataset: str = 'AnomalyTrack-all'
    min_area: int = 50
    keep: Optional[float] = None
    guarantees: Optional[Mapping[str, Mapping[str, Any]]] = None
    video: str = 'overlay'
    fps: Optional[float] = None
    volumes: Mapping[str, Path] = field(default_factory=dict)
    part: Optional[int] = None
    title: str = 'Uncertainty maps'
    metrics: Optional[Sequence[Mapping[str, Any]]] = None
    max_side: int = 1024
    overwrite: bool = False
    resume: bool = False
    rank: int = 0
    measured: dict[str, Range] = field(default_factory=dict)

    def __post_init__(self):
        object.__setattr__(self, 'folder', Path(self.folder))
        if isinstance(self.scores, str) or not self.scores:
            raise ValueError(f'scores={self.scores!r} must be a list of map '
                             "names, such as ['entropy'].")
        names = [slug(score) for score in self.scores]
        if len(set(names)) < len(names):
            raise ValueError(f'scores={list(self.scores)} would share files: '
                             f'their folders are {names}.')
        if self.dtype not in ('float16', 'float32'):
            raise ValueError(f'dtype={self.dtype!r} must be float16 or '
                             'float32.')
        thresholds = (self.threshold.values() if isinstance(
            self.threshold, Mapping) else [self.threshold])
        if any(value is not None and math.isnan(value)
               for value in thresholds):
            raise ValueError(f'threshold={self.threshold} is not a number; '
                             'write one such as 0.5.')
        one_of('video', self.video, ('overlay', 'side'))
        if self.part is None:
            object.__setattr__(self, 'part', self.rank)
        if self.keep is not None and not 0 < self.keep <= 1:
            raise ValueError(f'keep={self.keep} is not in (0, 1]; write 0.9 '
                             'for 90 %.')
        if self.overwrite and self.resume:
            raise ValueError('Choose one of --overwrite (write all again) '
                             'and --resume (skip what is complete).')

    def given_scale(self, score: str) -> Optional[Range]:
        """The user's range for the colours of a score, if there is one."""
        scale = self.scale
        scale = scale.get(score) if isinstance(scale, Mapping) else scale
        if scale is None:
            return None
        low, high = map(float, scale)
        if not low < high:
            raise ValueError(f'scale={scale} of {score!r}: the first number '
                             'must be below the second.')
        return low, high

    def is_measured(self, score: str) -> bool:
        """Whether the colours of a score need a measured range."""
        return self.given_scale(score) is None and (
            score_of(score) in SMALL_SCORES
            or natural_range(score, len(self.classes)) is None)

    def picture_range(self, score: str) -> Range:
        """The fixed range of the colours of a score."""
        scale = self.given_scale(score) or self.measured.get(
            score) or natural_range(score, len(self.classes))
        if scale is None:
            raise ValueError(
                f'{score!r} has no natural range for {len(self.classes)} '
                'classes, and pictures of a set compare only on a fixed one: '
                'give it with --scale LOW HIGH.')
        return scale

    def given_threshold(self, score: str) -> Optional[float]:
        """The user's threshold of a score, if there is one."""
        threshold = self.threshold
        if isinstance(threshold, Mapping):
            threshold = threshold.get(score)
        return None if threshold is None else float(threshold)

    def require_thresholds(self, form: str, instead: str = '') -> None:
        """Raise ValueError if a score has no threshold it can reach."""
        for score in self.scores:
            threshold = self.given_threshold(score)
            if threshold is None:
                raise ValueError(
                    f'The format {form!r} needs a threshold of {score!r}: '
                    'store one with the members by `abnn members '
                    'threshold`, or give --threshold'
                    f'{", or " + instead if instead else ""}.')
            scale = natural_range(score, len(self.classes))
            if scale is not None and threshold > scale[1]:
                raise ValueError(
                    f'threshold={threshold:g} is above all values of '
                    f'{score!r}, which end at {scale[1]:.4g}; name the maps '
                    'that it is for with --scores.')

    def threshold_of(self, score: str) -> Optional[float]:
        """The threshold given, or the middle of the range, or None."""
        threshold = self.given_threshold(score)
        scale = natural_range(score, len(self.classes))
        if threshold is None and scale is not None:
            return sum(scale) / 2
        return threshold
