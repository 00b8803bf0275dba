"""Which images an input stands for."""
import numpy as np
import pytest

from abnn_mmseg.datasets.pairs import files_by_stem
from abnn_mmseg.export import Frames
from abnn_mmseg.export.pixels import to_array


@pytest.fixture
def folder(tmp_path):
    """One image, one behind a link, and a link in a circle."""
    for name in ('in/b.png', 'real/a.png', 'real/notes.txt'):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / 'in' / 'city').symlink_to(tmp_path / 'real')
    (tmp_path / 'real' / 'up').symlink_to(tmp_path / 'in')
    return tmp_path / 'in'


def names(inputs):
    return [frame.name for frame in Frames(str(inputs)).files]


def test_a_folder_has_the_images_behind_its_links(folder):
    assert names(folder) == ['b', 'city/a']


def test_a_dataset_has_the_images_behind_its_links(folder):
    files, problems = files_by_stem(str(folder))
    assert list(files) == ['b', 'city/a'] and not problems


@pytest.mark.parametrize('pattern', ['*', 'c*'])
def test_a_glob_that_matches_a_folder_takes_its_images(folder, pattern):
    expected = ['b', 'city/a', 'city/up/b'] if pattern == '*' else [
        'city/a', 'city/up/b']
    assert names(folder / pattern) == expected


@pytest.mark.parametrize('dtype', [np.float16, np.float32, np.float64])
def test_colours_from_0_to_1_are_refused_in_arrays_too(dtype):
    image = np.full((4, 6, 3), 0.5, dtype)
    with pytest.raises(ValueError, match='values up to 0.5.*0 to 255'):
        to_array(image, 3)
    black = np.zeros((4, 6, 3), dtype)
    assert to_array(black, 3) is black
