"""Names that a user writes, and images chosen evenly."""
import pytest

from abnn_mmseg.utils.choices import all_of, evenly_spaced, one_of

FRUITS = ('apple', 'Banana')


def test_an_unknown_name_gets_the_closest_one():
    assert one_of('fruit', 'apple', FRUITS) == 'apple'
    with pytest.raises(ValueError, match="fruit='banane' is unknown; did you "
                       "mean 'Banana'.*apple, Banana"):
        one_of('fruit', 'banane', FRUITS)


def test_several_names_may_be_a_single_one():
    assert all_of('fruit', 'apple', FRUITS) == ('apple', )
    with pytest.raises(ValueError, match="'aple' is not a fruit; did you"):
        all_of('fruit', ['Banana', 'aple'], FRUITS)


def test_evenly_spaced_numbers_are_the_middles_of_equal_parts():
    assert evenly_spaced(10, 2) == [2, 7] and evenly_spaced(3, None) == [
        0, 1, 2]
    assert evenly_spaced(101, 3) == [16, 50, 84]
    assert evenly_spaced(2, 5) == [0, 1]
    with pytest.raises(ValueError, match='0 images are too few'):
        evenly_spaced(5, 0)
