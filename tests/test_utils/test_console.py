"""How tools end."""
import sys
import warnings

import pytest
from mmengine.evaluator import BaseMetric
from mmengine.fileio import FileClient
from mmengine.logging import MMLogger, print_log

from abnn_mmseg.models import BNLPosterior
from abnn_mmseg.utils import console
from abnn_mmseg.utils.console import (
    hide_library_messages,
    print_table,
    progress,
    progress_bar,
    say_errors,
)


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
    assert 'run it again to continue' in capsys.readouterr().err


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


def test_brackets_of_a_path_are_no_markup(capsys):
    row = {'file': '/data/[bold]/:smile:/[/1]/members.pth'}
    print_table('In run[/2]', [row])
    output = capsys.readouterr().out
    assert row['file'] in output and 'In run[/2]' in output


def test_zero_has_no_sign(capsys):
    print_table('Kept', [dict(name='base', kept=-0.0)])
    assert ' 0.00 ' in capsys.readouterr().out


def test_a_table_is_as_wide_as_it_needs(capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, 'isatty', lambda: True, raising=False)
    monkeypatch.setenv('COLUMNS', '40')
    row = {f'a long name of a column {i}': i for i in range(12)}
    print_table('A title that is wider than a narrow terminal is.', [row])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == (
        'A title that is wider than a narrow terminal is.')
    assert all(name in lines[2] for name in row)
    # Headers are bold, which takes characters.
    assert len(lines[1]) == len(lines[3]) == len(lines[4]) < 400


def test_a_file_gets_no_progress_bar(capsys):
    assert list(progress([1, 2], 'maps', 2)) == [1, 2]
    with progress_bar('maps', 2) as show:
        show(2)
    assert capsys.readouterr() == ('', '')


def test_a_progress_bar_takes_any_title(capsys, monkeypatch):
    monkeypatch.setattr(console, '_watched', lambda: True)
    assert list(progress([1, 2], 'maps in run[/1]', 2)) == [1, 2]
    assert 'maps in run[/1]' in capsys.readouterr().err


class Metric(BaseMetric):
    def process(self, data_batch, data_samples):
        pass

    def compute_metrics(self, results):
        pass


def test_chatter_of_libraries_is_in_the_log_file_only(tmp_path, capsys):
    file = tmp_path / 'log'
    hide_library_messages(MMLogger.get_instance('quiet', log_file=str(file)))
    Metric()
    FileClient(backend='disk')
    print_log('A line of ours.', 'current')
    for handler in MMLogger.get_instance('quiet').handlers:
        handler.flush()
    printed = capsys.readouterr()
    assert 'A line of ours.' in printed.out
    assert 'prefix' not in printed.out and 'FileClient' not in printed.out
    assert 'The prefix is not set' in file.read_text()


def test_chatter_of_losses_is_left_out():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter('always')
        hide_library_messages()
        warnings.warn('Default ``avg_non_ignore`` is False, ...',
                      stacklevel=1)
        warnings.warn('Something else', stacklevel=1)
    assert [str(w.message) for w in caught] == ['Something else']


@pytest.mark.parametrize('value, text', [
    (0, '0'), (0.0, '0.00'), (0.0381, '0.0381'), (0.5, '0.500'),
    (0.9999, '1.00'), (-0.25, '-0.250'), (3.4e-4, '3.4e-04'),
    (91.126, '91.13'), (None, '-'), (float('nan'), '-'), ('test', 'test')])
def test_small_numbers_keep_three_digits(value, text, capsys):
    print_table('Numbers', [dict(value=value)])
    assert f' {text} ' in capsys.readouterr().out
