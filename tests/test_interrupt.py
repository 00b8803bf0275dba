"""A few interruptions; ``python tests/interrupt.py`` makes many."""
import signal
import time

import pytest
from interrupt import KINDS, Training, disturb, start, stop

from abnn_mmseg.engine import read_members


@pytest.mark.parametrize('kind', KINDS)
def test_a_killed_run_resumes_to_the_same_files(kind, sketch, base):
    kills = 2 if kind in ('Training', 'Export') else 1
    cut = disturb(KINDS[kind](sketch, base), kills)
    # A single kill may come too late.
    assert cut > 0 or kills == 1


def test_ctrl_c_ends_with_a_code_and_can_be_resumed(sketch, base, tmp_path):
    work = Training(sketch, base, pause=1)
    process = start(work, tmp_path)
    # From here on six of eight iterations, of a second each, are to come.
    while not (tmp_path / 'member_0' / 'iter_2.pth').exists():
        assert process.is_alive()
        time.sleep(0.01)
    assert stop(process, signal.SIGINT) == 130
    assert not (tmp_path / 'members.pth').exists()
    work.check_whole(tmp_path)
    work.pause = 0
    process = start(work, tmp_path, resume=True)
    process.join()
    assert process.exitcode == 0
    assert len(read_members(tmp_path / 'members.pth')) == 2
