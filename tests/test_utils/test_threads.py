"""Threads beside the network."""
import os
import sys
import threading

import pytest

from abnn_mmseg.utils.threads import background_pool


def priority():
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


@pytest.mark.skipif(sys.platform != 'linux',
                    reason='threads have no priority of their own')
def test_threads_step_back_and_the_caller_does_not():
    before = priority()
    with background_pool(1, 'test') as pool:
        assert pool.submit(priority).result() == max(before, 10)
    assert priority() == before
