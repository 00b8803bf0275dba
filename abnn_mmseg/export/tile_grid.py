"""How a large image is split into tiles."""
from typing import NamedTuple

from abnn_mmseg.models.windows import window_slices


class Tile(NamedTuple):
    """Rows and columns of a tile, and of all windows that overlap it."""
    rows: slice
    columns: slice
    seen_rows: slice
    seen_columns: slice


def make_tiles(size: tuple[int, int], side: int, crop: tuple[int, int],
               stride: tuple[int, int]) -> list[Tile]:
    """Tiles of an image, row by row."""
    rows, columns = (
        _spans(*arguments)
        for arguments in zip(size, (side, side), crop, stride))
    return [Tile(row, column, seen_row, seen_column)
            for row, seen_row in rows for column, seen_column in columns]


def _spans(size: int, side: int, crop: int,
           stride: int) -> list[tuple[slice, slice]]:
    """Split one axis; return each part and the range of its windows.

    All windows but the last start at multiples of the stride. So the windows
    of a part are those of an image of that size.
    """
    windows = window_slices(size, crop, stride)
    spans = []
    for start in range(0, size, side):
        stop = min(start + side, size)
        touching = [w for w in windows if w.start < stop and w.stop > start]
        spans.append((slice(start, stop),
                      slice(touching[0].start, touching[-1].stop)))
    return spans
