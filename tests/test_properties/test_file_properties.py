"""Whatever is written comes back; whatever is labelled keeps its meaning."""
import json
import tempfile
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from abnn_mmseg.datasets.protocol import IGNORE, LabelProtocol
from abnn_mmseg.datasets.transforms import LoadAnomalyAnnotations
from abnn_mmseg.export.formats import build_writers
from abnn_mmseg.export.result import MapResult
from abnn_mmseg.members.files import read_members, save_members
from abnn_mmseg.utils import append_line, atomic_write

EXAMPLES = settings(max_examples=40, deadline=None, derandomize=True)
MAPS = arrays(np.float32, array_shapes(min_dims=2, max_dims=2, max_side=6),
              elements=st.floats(-1e6, 1e6, width=32))
NAMES = st.text('abc/._ 0é', min_size=1, max_size=12)


@pytest.fixture(autouse=True, scope='module')
def folder():
    """One for all examples; each writes files of its own."""
    with tempfile.TemporaryDirectory() as path:
        yield Path(path)


@EXAMPLES
@given(values=MAPS)
def test_maps_survive_every_numeric_format(folder, values):
    result = MapResult('a', np.zeros(values.shape, int), {'energy': values})
    for writer in build_writers(['npy', 'npz', 'tiff', 'png16'], folder,
                                ['energy'], overwrite=True):
        writer.write(result)
    np.testing.assert_array_equal(np.load(folder / 'npy/energy/a.npy'), values)
    with np.load(folder / 'npz/a.npz') as arrays_:
        np.testing.assert_array_equal(arrays_['energy'], values)
    tiff = cv2.imread(str(folder / 'tiff/energy/a.tiff'),
                      cv2.IMREAD_UNCHANGED)
    np.testing.assert_array_equal(tiff, values)
    levels = cv2.imread(str(folder / 'png16/energy/a.png'),
                        cv2.IMREAD_UNCHANGED).astype(float)
    scale = json.loads((folder / 'png16/energy/a.json').read_text())
    span = scale['max'] - scale['min']
    decoded = scale['min'] + span * levels / 65535
    np.testing.assert_allclose(
        decoded, values, atol=span / 65535 / 2 + 1e-6 * abs(values).max())


@EXAMPLES
@given(name=NAMES)
def test_no_name_leaves_the_folder(folder, name):
    plane = np.zeros((2, 2), np.float32)
    try:
        result = MapResult(name, plane.astype(int), {'energy': plane})
    except ValueError as error:
        assert 'must be a path below the output folder' in str(error)
        return
    root = folder / 'names'
    [writer] = build_writers(['npy'], root, ['energy'])
    for path in writer.paths(result.name):
        assert root.resolve() in path.resolve().parents


@EXAMPLES
@given(data=st.binary(max_size=300), line=st.text(
    st.characters(exclude_categories=('C', 'Z')), min_size=1))
def test_bytes_and_lines_survive(folder, data, line):
    path = folder / 'bytes'
    atomic_write(path, data)
    assert path.read_bytes() == data
    atomic_write(path, 'half a line')
    append_line(path, line)
    assert path.read_text(encoding='utf-8').split('\n')[1] == line


META = st.dictionaries(st.text(max_size=5), st.one_of(
    st.none(), st.booleans(), st.integers(-2**62, 2**62), st.text(max_size=5),
    st.floats(allow_nan=False), st.lists(st.floats(allow_nan=False))),
    max_size=4)


@EXAMPLES
@given(values=MAPS, meta=META, count=st.integers(1, 3))
def test_members_survive_with_all_that_is_said_of_them(
        folder, values, meta, count):
    state = {'norm.weight': torch.from_numpy(values)}
    save_members(folder / 'm.pth', [dict(state=state, meta=meta)] * count,
                 'f00d')
    members = read_members(folder / 'm.pth')
    assert len(members) == count
    for member in members:
        assert member['fingerprint'] == 'f00d' and member['meta'] == meta
        assert torch.equal(member['state']['norm.weight'],
                           state['norm.weight'])


@st.composite
def protocols(draw):
    """Some ids are classes, some OOD, some void, the others unknown."""
    ids = draw(st.lists(st.integers(0, 255), min_size=4, max_size=30,
                        unique=True))
    cuts = sorted(draw(st.lists(
        st.integers(1, len(ids) - 1), min_size=2, max_size=2)))
    classes, ood, void = (
        ids[:cuts[0]], ids[cuts[0]:cuts[1]], ids[cuts[1]:])
    return LabelProtocol(
        'any', [f'c{i}' for i in classes], classes,
        [(i, i, i) for i in classes], ood, void)


@EXAMPLES
@given(protocol=protocols(), data=st.data())
def test_every_label_is_what_its_protocol_says(folder, protocol, data):
    known = [*protocol.ids, *protocol.ood, *protocol.void]
    raw = np.array(data.draw(st.lists(
        st.sampled_from(known), min_size=6, max_size=6)), np.uint8)
    seg, anomaly = translate(folder, protocol, raw)
    for pixel, train_id, label in zip(raw, seg.flat, anomaly.flat):
        if pixel in protocol.ids:
            assert protocol.ids[train_id] == pixel and label == 0
        else:
            assert train_id == IGNORE
            assert label == (1 if pixel in protocol.ood else 255)


@EXAMPLES
@given(protocol=protocols(), stranger=st.integers(0, 2**16 - 1))
def test_a_label_without_meaning_is_refused(folder, protocol, stranger):
    known = [*protocol.ids, *protocol.ood, *protocol.void]
    raw = np.array([known[0]] * 5 + [stranger], np.uint16)
    if stranger in known:
        translate(folder, protocol, raw)
        return
    with pytest.raises(ValueError, match=f'does not know: {stranger}'):
        translate(folder, protocol, raw)


def translate(folder, protocol, raw):
    """Both maps of a label file."""
    path = folder / 'label.png'
    cv2.imwrite(str(path), raw.reshape(2, 3))
    results = dict(seg_map_path=str(path), label_tables=protocol.tables(),
                   ori_shape=(2, 3), seg_fields=[])
    LoadAnomalyAnnotations()(results)
    return results['gt_seg_map'], results['gt_anomaly_map']
