"""A few interruptions; ``python tests/interrupt.py`` makes many."""
import signal

import pytest
from interrupt import Export, Training, disturb, interrupted


@pytest.mark.parametrize('kind', [Training, Export])
def test_a_killed_run_resumes_to_the_same_files(kind, sketch, base):
    assert disturb(kind(sketch, base), kills=2) > 0


def test_ctrl_c_ends_with_a_code_and_can_be_resumed(sketch, base, tmp_path):
    work = Training(sketch, base)
    code = interrupted(work, tmp_path, 1., signal.SIGINT)
    assert code in (130, 0)
    work.check_whole(tmp_path)
    assert interrupted(work, tmp_path, 600, signal.SIGINT, resume=True) == 0
