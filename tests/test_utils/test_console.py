"""How tools end."""
import pytest

from abnn_mmseg.models import BNLPosterior
from abnn_mmseg.utils.console import say_errors


def end_of(error, context=None):
    with pytest.raises(SystemExit) as end, say_errors():
        try:
            if context is not None:
                raise context
        finally:
            raise error
    return end.value.code


@pytest.mark.parametrize('context', [None, ValueError('x')])
def test_ctrl_c_has_its_own_code(context, capsys):
    assert end_of(KeyboardInterrupt(), context) == 130
    assert 'run again to go on' in capsys.readouterr().err


def test_ctrl_c_is_seen_behind_what_became_of_it():
    assert end_of(SyntaxError('cannot format'), KeyboardInterrupt()) == 130


def test_a_mistake_is_one_sentence(capsys):
    assert end_of(ValueError('alpha must not be negative.')) == 1
    assert capsys.readouterr().err == (
        '\nValueError: alpha must not be negative.\n')


def test_a_misspelt_option_is_one_sentence(capsys):
    with pytest.raises(SystemExit), say_errors():
        BNLPosterior(sampels=3)
    assert "'sampels'" in capsys.readouterr().err


@pytest.mark.parametrize('error', [ZeroDivisionError, TypeError])
def test_a_bug_keeps_its_traceback(error):
    with pytest.raises(error), say_errors():
        raise error
