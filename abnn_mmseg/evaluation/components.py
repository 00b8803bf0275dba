"""Connected areas of a mask, and the overlap of two sets of areas."""
from typing import NamedTuple

import cv2
import numpy as np

# The thresholds of overlap in SegmentMeIfYouCan.
LEVELS = np.linspace(0.25, 0.75, 11)


class Agreement(NamedTuple):
    """Overlap of found and true areas: one number for each area.

    Attributes:
        truth (np.ndarray): sIoU of every true area.
        precision (np.ndarray): The share of each found area that is true
            (PPV).
    """
    truth: np.ndarray
    precision: np.ndarray


def components(mask: np.ndarray, min_area: float = 1) -> np.ndarray:
    """Number the connected areas (8 neighbours) of a mask, starting at 1.

    Args:
        mask (np.ndarray): bool ``[H, W]``.
        min_area (float): Areas with fewer pixels become 0. Defaults to 1.
    """
    _, labels, stats, _ = cv2.connectedComponentsWithStats(
        mask.astype(np.uint8), connectivity=8)
    large = stats[:, cv2.CC_STAT_AREA] >= min_area
    large[0] = False
    return (large.cumsum() * large).astype(np.int32)[labels]


def agreement(truth: np.ndarray, found: np.ndarray) -> Agreement:
    """sIoU and PPV of areas (Chan et al., SegmentMeIfYouCan, 2021).

    An area is compared with all areas of the other set that it overlaps.
    Their pixels outside it are not counted if they lie in other areas of its
    own set.

    Args:
        truth (np.ndarray): Numbers of true areas, 0 elsewhere, any shape.
        found (np.ndarray): Numbers of found areas, the same shape.
    """
    size = int(truth.max(initial=0)) + 1, int(found.max(initial=0)) + 1
    pairs = truth.ravel().astype(np.int64) * size[1] + found.ravel()
    shared = np.bincount(pairs, minlength=size[0] * size[1]).reshape(size)
    # Leave out areas without any pixel here.
    shared = shared[:, np.append(True, shared[:, 1:].any(0))]
    shared = shared[np.append(True, shared[1:].any(1))]
    areas = shared.sum(0)[1:]
    covered = shared[1:, 1:].sum(0)
    precision = covered / np.maximum(areas, 1)
    return Agreement(_adjusted(shared), precision)


def _adjusted(shared: np.ndarray) -> np.ndarray:
    """sIoU of the areas of the rows.

    The union is the area and the parts of overlapping areas that lie outside
    all areas of its own set.
    """
    inside = shared[1:, 1:]
    touched = inside > 0
    union = shared[1:].sum(1) + touched @ shared[0, 1:]
    return inside.sum(1) / np.maximum(union, 1)
