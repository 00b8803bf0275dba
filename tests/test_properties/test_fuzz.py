"""Some hundred damaged files; ``python tests/fuzz.py`` reads thousands."""
import subprocess
import sys

import pytest
from fuzz import fuzz_masks, fuzz_members, nothing_runs


@pytest.mark.parametrize('fuzz', [fuzz_members, fuzz_masks])
def test_damaged_files_are_refused_in_a_sentence(fuzz, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    counts = fuzz(300)
    assert counts['refused'] > 100
    assert sum(counts.values()) == 300


def test_the_watch_sees_what_runs(tmp_path):
    with pytest.raises(AssertionError, match='reading a file did'):
        with nothing_runs():
            (tmp_path / 'proof').write_text('executed')
    with pytest.raises(AssertionError, match='reading a file did'):
        with nothing_runs():
            subprocess.run([sys.executable, '--version'], check=True)
