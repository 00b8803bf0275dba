"""Files appear whole or not at all."""
import multiprocessing
import resource

import pytest

from abnn_mmseg.utils import append_line, atomic_path, atomic_write
from abnn_mmseg.utils.files import claimed, files_below, read_lines


def test_a_written_file_replaces_the_old_one_and_leaves_nothing_else(tmp_path):
    path = tmp_path / 'a' / 'b.txt'
    atomic_write(path, 'old')
    atomic_write(path, 'new')
    assert path.read_text() == 'new'
    assert list(path.parent.iterdir()) == [path]


def test_an_exception_leaves_no_file(tmp_path):
    path = tmp_path / 'b.txt'
    with pytest.raises(RuntimeError, match='stop'):
        with atomic_path(path) as temporary:
            temporary.write_text('half')
            raise RuntimeError('stop')
    assert list(tmp_path.iterdir()) == []


def test_the_temporary_path_keeps_suffix_and_folder(tmp_path):
    with atomic_path(tmp_path / 'b.png') as temporary:
        assert temporary.suffix == '.png' and temporary.parent == tmp_path
        temporary.touch()


def test_a_disk_without_room_keeps_the_old_file_and_names_the_folder(tmp_path):
    path = tmp_path / 'b.bin'
    atomic_write(path, b'old')
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        with pytest.raises(OSError) as caught:
            atomic_write(path, bytes(1000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert str(tmp_path) in str(caught.value)
    assert caught.value.errno is not None
    assert path.read_bytes() == b'old'
    assert list(tmp_path.iterdir()) == [path]


def test_an_appended_line_survives_a_torn_one(tmp_path):
    path = tmp_path / 'rows'
    path.write_text('{"half": ')
    append_line(path, '{"whole": 1}')
    assert '{"whole": 1}' in path.read_text().splitlines()


def test_damaged_lines_of_a_journal_are_skipped(tmp_path):
    path = tmp_path / 'journal.jsonl'
    append_line(path, '{"time": 1, "image": "a"}')
    with open(path, 'ab') as file:
        file.write(b'{"time": 2, "ima\xff"\n[3]\n{"time": "x"}\n' + b'\0' * 9)
    append_line(path, '{"time": 4, "image": "b"}')
    assert [line['image'] for line in read_lines([path])] == ['a', 'b']


@pytest.mark.parametrize('letter', ['a', '\u00e4'])
def test_a_name_may_be_as_long_as_the_file_system_allows(tmp_path, letter):
    stem = letter * (250 // len(letter.encode()))
    path = tmp_path / f'{stem}.png'
    with atomic_path(path) as temporary:
        assert temporary.suffix == '.png'
        temporary.write_text('whole')
    assert path.read_text() == 'whole'
    assert list(tmp_path.iterdir()) == [path]


def test_links_to_folders_are_followed_but_not_in_circles(tmp_path):
    (tmp_path / 'real').mkdir()
    (tmp_path / 'real' / 'a.png').touch()
    (tmp_path / 'in').mkdir()
    (tmp_path / 'in' / 'b.png').touch()
    (tmp_path / 'in' / 'city').symlink_to(tmp_path / 'real')
    (tmp_path / 'in' / 'again').symlink_to(tmp_path / 'in')
    (tmp_path / 'real' / 'up').symlink_to(tmp_path / 'in')
    (tmp_path / 'in' / 'itself').symlink_to('itself')
    (tmp_path / 'in' / 'nowhere.png').symlink_to('nothing')
    found = [p.relative_to(tmp_path / 'in').as_posix()
             for p in files_below(tmp_path / 'in')]
    assert found == ['b.png', 'city/a.png']


def test_files_that_are_being_written_are_left_out(tmp_path):
    with atomic_path(tmp_path / 'a.png') as temporary:
        temporary.touch()
        (tmp_path / '.hidden.png').touch()
        assert list(files_below(tmp_path)) == [tmp_path / '.hidden.png']


def keep(folder, ends):
    with claimed(folder):
        ends.send('mine')
        ends.recv()


def test_a_folder_is_claimed_by_one_process_at_a_time(tmp_path):
    context = multiprocessing.get_context('fork')
    ours, theirs = context.Pipe()
    process = context.Process(target=keep, args=(tmp_path, theirs))
    process.start()
    assert ours.recv() == 'mine'
    with pytest.raises(FileExistsError, match='another process is writing'):
        with claimed(tmp_path):
            pass
    process.kill()
    process.join()
    with claimed(tmp_path):
        pass
