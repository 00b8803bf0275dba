"""Threads write the same files and hide no error."""
import threading
import time

import pytest
from results import files, make_result

from abnn_mmseg.export.formats import build_writers
from abnn_mmseg.export.writers import ThreadedWriter


def test_threads_write_the_same_files(tmp_path):
    results = [make_result(f'{seed % 2}/{seed}', seed) for seed in range(12)]
    formats = ['npy', 'csv']
    with ThreadedWriter(build_writers(formats, tmp_path / 'threads',
                                      ['entropy']), queue=2) as writer:
        for result in results:
            writer.write(result)
    plain = build_writers(formats, tmp_path / 'plain', ['entropy'])
    for writer in plain:
        for result in results:
            writer.write(result)
        writer.close()
    assert files(tmp_path / 'threads') == files(tmp_path / 'plain')
    for name in files(tmp_path / 'plain'):
        if not name.endswith('jsonl'):
            assert ((tmp_path / 'threads' / name).read_bytes() ==
                    (tmp_path / 'plain' / name).read_bytes())


def test_an_error_in_a_thread_reaches_the_caller(tmp_path):
    (tmp_path / 'npy').write_text('a file where a folder should be')
    writer = ThreadedWriter(build_writers(['npy'], tmp_path, ['entropy']),
                            workers=1, queue=1)
    with pytest.raises(OSError, match='in folder .*npy'):
        for seed in range(50):
            writer.write(make_result(str(seed)))
        writer.close()
    with pytest.raises(OSError, match='in folder'):
        writer.close()
    assert not any(thread.name.startswith('map-writer')
                   for thread in threading.enumerate())


def test_the_queue_is_bounded(tmp_path):
    gate, started = threading.Event(), []

    class Slow:
        def write(self, result):
            gate.wait()

        def close(self):
            pass

    writer = ThreadedWriter([Slow()], workers=1, queue=2)

    def produce():
        for seed in range(6):
            writer.write(make_result(str(seed)))
            started.append(seed)

    producer = threading.Thread(target=produce)
    producer.start()
    try:
        limit = time.monotonic() + 60
        while len(started) < 3 and time.monotonic() < limit:
            time.sleep(0.01)
        producer.join(0.3)
        assert len(started) == 3, 'one at work and two waiting'
    finally:
        gate.set()
        producer.join()
    writer.close()
    assert len(started) == 6


def test_the_callers_own_error_is_the_one_seen(tmp_path):
    with pytest.raises(KeyError, match='mine'):
        with ThreadedWriter(build_writers(['npy'], tmp_path,
                                          ['entropy'])) as writer:
            writer.write(make_result('0'))
            raise KeyError('mine')
    assert files(tmp_path) == ['npy/entropy/0.npy']
