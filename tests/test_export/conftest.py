"""Images in a folder and its sub-folder."""
import cv2
import numpy as np
import pytest


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    for name in ('a.png', 'b.png', 'sub/a.png', 'sub/c.png', 'd.png'):
        path = tmp_path / 'images' / name
        path.parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(path), rng.integers(0, 255, (32, 48, 3), np.uint8))
    return tmp_path / 'images'
