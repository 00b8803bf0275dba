"""Feed damaged files to our readers: only our own errors may come out.

    python tests/fuzz.py --count 10000

Prints how many files were refused and how many still read. Ends with an
error if a reader raises anything else, or if reading starts a process,
writes, or removes a file.
"""
import argparse
import io
import random
import sys
import tempfile
import zipfile
from contextlib import contextmanager
from pathlib import Path

import cv2
import numpy as np
import torch

from abnn_mmseg.datasets.muad import PROTOCOLS
from abnn_mmseg.datasets.transforms import LoadAnomalyAnnotations, read_image
from abnn_mmseg.export.inputs import Frame, read_bgr
from abnn_mmseg.members.files import read_members, save_members
from abnn_mmseg.utils.checkpoints import read_state_dict

ACTIONS = ('os.system', 'os.exec', 'os.posix_spawn', 'os.fork', 'os.mkdir',
           'os.remove', 'os.rename', 'os.rmdir', 'subprocess.Popen',
           'shutil.rmtree', 'socket.connect')
_watching = []
_done = []


def _watch(event, arguments):
    if not _watching:
        return
    # Flags are those of os.open: 3 masks reading, writing and both.
    writes = event == 'open' and isinstance(
        arguments[2], int) and arguments[2] & 3
    if event in ACTIONS or writes:
        _done.append((event, str(arguments)[:200]))


@contextmanager
def nothing_runs():
    """Raise if the block acts on the system; reading files is allowed."""
    if not getattr(_watch, 'installed', False):
        sys.addaudithook(_watch)
        _watch.installed = True
    _done.clear()
    _watching.append(True)
    try:
        yield
    finally:
        _watching.clear()
    if _done:
        raise AssertionError(f'reading a file did {_done[0]}')


def mutate(data: bytes, dice: random.Random) -> bytes:
    """The same bytes with a few flipped, cut, doubled or inserted."""
    data = bytearray(data)
    for _ in range(dice.randint(1, 8)):
        if not data:
            break
        where = dice.randrange(len(data))
        length = dice.randint(1, 16)
        kind = dice.randrange(5)
        if kind == 0:
            data[where] = dice.randrange(256)
        elif kind == 1:
            del data[where:where + length]
        elif kind == 2:
            data[where:where] = data[where:where + length]
        elif kind == 3:
            data[where:where] = dice.randbytes(length)
        elif dice.random() < 0.2:
            del data[where:]
    return bytes(data)


def mutate_inside(data: bytes, dice: random.Random) -> bytes:
    """A whole archive with one damaged file in it, checksum and all."""
    source, out = zipfile.ZipFile(io.BytesIO(data)), io.BytesIO()
    names = source.namelist()
    # Most of the format is in the pickle.
    pickles = [name for name in names if name.endswith('.pkl')]
    chosen = dice.choice(pickles if dice.random() < 0.8 else names)
    with zipfile.ZipFile(out, 'w') as archive:
        for name in names:
            content = source.read(name)
            archive.writestr(
                name, mutate(content, dice) if name == chosen else content)
    return out.getvalue()


def survives(read, error_types, path: Path) -> bool:
    """Whether a damaged file still reads."""
    with nothing_runs():
        try:
            read(path)
        except error_types as error:
            # A sentence that names the file.
            assert path.name in str(error), error
            return False
    return True


def fuzz(seed: bytes, mutators, read, error_types, count: int,
         suffix: str) -> dict:
    """Counts of files that were refused and that were read."""
    counts = dict(refused=0, read=0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f'fuzzed{suffix}'
        for number in range(count):
            dice = random.Random(number)
            path.write_bytes(dice.choice(mutators)(seed, dice))
            try:
                alive = survives(read, error_types, path)
            except BaseException:
                kept = Path(f'fuzz_{number}{suffix}')
                kept.write_bytes(path.read_bytes())
                print(f'number {number}, kept as {kept}', file=sys.stderr)
                raise
            counts['read' if alive else 'refused'] += 1
    return counts


def fuzz_members(count: int) -> dict:
    """Member files, through both readers of checkpoints."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / 'member.pth'
        state = {f'norm.{i}': torch.randn(4) for i in range(3)}
        save_members(path, [dict(state=state, meta=dict(seed=1, eta=[0.5]))],
                     'f00d')
        seed = path.read_bytes()

    def read(path):
        for member in read_members(path):
            assert all(isinstance(v, torch.Tensor)
                       for v in member['state'].values())
        read_state_dict(path)

    return fuzz(seed, (mutate, mutate_inside), read, ValueError, count,
                '.pth')


def fuzz_masks(count: int) -> dict:
    """Label files, and images as the inferencer and datasets read them."""
    pixels = np.random.default_rng(0).integers(0, 19, (24, 32), np.uint8)
    seed = cv2.imencode('.png', pixels)[1].tobytes()
    tables = PROTOCOLS['15'].tables()

    def read(path):
        # Each has its say, whatever the others think of the file.
        errors = []
        for reader in (
                lambda: LoadAnomalyAnnotations()(dict(
                    seg_map_path=str(path), label_tables=tables,
                    seg_fields=[])),
                lambda: read_image(str(path)),
                lambda: read_bgr(Frame('fuzzed', path))):
            try:
                reader()
            except (ValueError, OSError) as error:
                errors.append(error)
        if errors:
            raise errors[0]

    return fuzz(seed, (mutate, ), read, (ValueError, OSError), count, '.png')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--count', type=int, default=10000,
                        help='files of each kind (default: 10000)')
    count = parser.parse_args().count
    print('members', fuzz_members(count))
    print('masks', fuzz_masks(count))


if __name__ == '__main__':
    main()
