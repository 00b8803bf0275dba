import pickle
from concurrent.futures import ThreadPoolExecutor

import cv2
import numpy as np
import pytest
import torch
import toys
from mmengine.structures import PixelData
from mmseg.models.decode_heads import DepthwiseSeparableASPPHead
from mmseg.registry import MODELS
from mmseg.structures import SegDataSample
from sketches import abnn_config, config

from abnn_mmseg.export import ABNNInferencer, Frames, export_maps
from abnn_mmseg.export.inferencer import Loaded, to_result
from abnn_mmseg.members.files import norm_state


@pytest.fixture(scope='module')
def inferencer(sketch, base, tmp_path_factory):
    cfg = abnn_config(sketch, tmp_path_factory.mktemp('work'), base)
    return ABNNInferencer(cfg, str(base), device='cpu')


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    for name in ('a.png', 'b.jpg', 'sub/a.png'):
        path = tmp_path / 'images' / name
        path.parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(path), rng.integers(0, 255, (32, 48, 3), np.uint8))
    return tmp_path / 'images'


def test_every_kind_of_input(inferencer, folder):
    image = cv2.imread(str(folder / 'a.png'))
    for given, names in [
        (str(folder / 'a.png'), ['a']), (folder, ['a', 'b', 'sub/a']),
        (f'{folder}/*.png', ['a']), (image, ['image_000000']),
        ([folder / 'b.jpg', image], ['b', 'image_000001'])]:
        results = inferencer(given)
        assert [r.name for r in results] == names
        assert results[0].maps['entropy'].shape == (32, 48)
        assert results[0].prediction.max() < 15


def test_a_video_is_a_stream_of_frames(inferencer, tmp_path):
    path = tmp_path / 'drive.avi'
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*'MJPG'), 5,
                             (64, 32))
    for value in (0, 120, 240):
        writer.write(np.full((32, 64, 3), value, np.uint8))
    writer.release()
    names = [r.name for r in inferencer.stream(str(path))]
    assert names == ['drive_000000', 'drive_000001', 'drive_000002']


def test_same_image_and_seed_give_the_same_map(inferencer, folder):
    one = inferencer(folder / 'a.png')[0]
    batch = inferencer(folder, batch_size=3)[0]
    for score, map_ in one.maps.items():
        np.testing.assert_allclose(map_, batch.maps[score], atol=1e-6)
    again = inferencer(folder / 'a.png')[0]
    np.testing.assert_array_equal(one.maps['entropy'], again.maps['entropy'])


def test_probability_on_request(inferencer, folder):
    result = inferencer(folder / 'a.png', probability=True)[0]
    np.testing.assert_allclose(result.probability.sum(0), 1, atol=1e-5)
    np.testing.assert_array_equal(result.probability.argmax(0),
                                  result.prediction)


def test_probability_of_a_sigmoid_head_is_that_of_two_classes():
    sample = SegDataSample(
        seg_logits=PixelData(data=torch.tensor([[[0.2, 0.7]]])),
        pred_sem_seg=PixelData(data=torch.tensor([[[0, 1]]])),
        uncertainty=PixelData())
    result = to_result(Loaded('a', {}, None), sample, probability=True)
    np.testing.assert_allclose(
        result.probability, [[[0.8, 0.3]], [[0.2, 0.7]]], atol=1e-6)


def one_channel(cfg):
    cfg['decode_head'].update(
        num_classes=2, out_channels=1, threshold=0.3,
        loss_decode=dict(type='CrossEntropyLoss', use_sigmoid=True))


@pytest.mark.parametrize('make', [toys.bayesian_config, lambda auxiliary: (
    toys.bayesian_config(auxiliary=auxiliary, posterior=dict(
        type='BNLPosterior', alpha=0., samples=1)))], ids=['draws', 'one'])
def test_probability_of_a_binary_model(make):
    cfg = make(auxiliary=False)
    one_channel(cfg)
    model = toys.build(cfg)
    with torch.no_grad():
        [sample] = model.predict(torch.randn(1, 3, 32, 48))
    foreground = sample.seg_logits.data[1].exp().numpy()
    result = to_result(Loaded('a', {}, None), sample, probability=True)
    np.testing.assert_allclose(result.probability, [1 - foreground,
                                                    foreground], atol=1e-6)
    np.testing.assert_array_equal(result.prediction, foreground > 0.3)


@MODELS.register_module(name='ToyMaskHead', force=True)
class MaskFormerHead(DepthwiseSeparableASPPHead):
    """Gives what mask heads do: how much of the masks a class has."""

    def predict_by_feat(self, seg_logits, batch_img_metas):
        return super().predict_by_feat(
            seg_logits, batch_img_metas).sigmoid() / 9


def test_probability_of_a_mask_head_is_a_share_of_the_masks():
    """Two equal members: the mean is the one network."""
    cfg = toys.bayesian_config(auxiliary=False, alpha=0.)
    cfg['decode_head']['type'] = 'ToyMaskHead'
    model = toys.build(cfg)
    state = norm_state(model)
    model.posterior.set_members([state, state])
    images = torch.randn(1, 3, 32, 48)
    with torch.no_grad():
        [sample] = model.predict(images)
        masks = model.encode_decode(images, [dict(
            img_shape=(32, 48), ori_shape=(32, 48))])[0]
    result = to_result(Loaded('a', {}, None), sample, probability=True)
    np.testing.assert_allclose(
        result.probability, (masks / masks.sum(0)).numpy(), atol=1e-5)


def test_calls_are_silent(inferencer, folder, capfd):
    inferencer(folder)
    assert capfd.readouterr() == ('', '')


def test_threads_share_an_inferencer_and_pickles_are_equal(sketch, base,
                                                           folder, tmp_path):
    """The network alone: what calls keep is up to the inferencer."""
    inferencer = ABNNInferencer(
        config(sketch, tmp_path), str(base), device='cpu')
    other = pickle.loads(pickle.dumps(inferencer))
    expected = inferencer(folder)
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(inferencer, [folder] * 4)) + [other(folder)]
    for answer in answers:
        for one, two in zip(expected, answer):
            assert one.name == two.name
            np.testing.assert_array_equal(one.maps['entropy'],
                                          two.maps['entropy'])


def test_a_bayesian_inferencer_can_be_pickled(inferencer, folder):
    other = pickle.loads(pickle.dumps(inferencer))
    for one, two in zip(inferencer(folder), other(folder)):
        np.testing.assert_array_equal(one.maps['entropy'],
                                      two.maps['entropy'])


def test_probability_needs_a_file_that_holds_it(inferencer, folder, tmp_path):
    with pytest.raises(ValueError, match="'npz' only"):
        export_maps(inferencer, folder, tmp_path / 'out', probability=True)


def test_a_config_and_no_checkpoint_is_one_sentence(sketch, tmp_path):
    cfg = config(sketch, tmp_path)
    cfg.load_from = None
    with pytest.raises(ValueError, match='give one base checkpoint'):
        ABNNInferencer(cfg)


def test_export_puts_the_probability_into_the_npz(inferencer, folder,
                                                  tmp_path):
    export_maps(inferencer, str(folder / 'a.png'), tmp_path / 'maps',
                ['npz'], probability=True, dtype='float16')
    with np.load(tmp_path / 'maps' / 'npz' / 'a.npz') as arrays:
        assert arrays['probability'].dtype == np.float16
        np.testing.assert_allclose(arrays['probability'].sum(0), 1, atol=5e-3)


def test_bad_inputs_are_named(inferencer, tmp_path):
    with pytest.raises(FileNotFoundError, match='nowhere'):
        inferencer(tmp_path / 'nowhere')
    with pytest.raises(FileNotFoundError, match='no image in'):
        inferencer(tmp_path)
    (tmp_path / 'broken.png').write_bytes(b'\x89PNG\r\n')
    with pytest.raises(ValueError, match='broken.png cannot be decoded'):
        inferencer(tmp_path / 'broken.png')
    with pytest.raises(ValueError, match='uint8'):
        inferencer(np.zeros((4, 4)))
    with pytest.raises(ValueError, match=r'model takes \[H, W, 3\]'):
        inferencer(np.zeros((4, 4, 4)))


def test_two_files_of_one_name_are_refused(folder):
    cv2.imwrite(str(folder / 'a.jpg'), np.zeros((4, 4, 3), np.uint8))
    with pytest.raises(ValueError, match='share the output name'):
        Frames(folder)


def test_export_of_the_test_set_carries_ground_truth(inferencer, tmp_path):
    done = export_maps(inferencer, 'test', tmp_path, ['npy', 'gallery'])
    assert done.written == 3
    assert (tmp_path / 'gallery' / 'index.html').is_file()
    maps = sorted((tmp_path / 'npy' / 'entropy').glob('*.npy'))
    assert len(maps) == 3 and np.load(maps[0]).shape == (32, 64)
    again = export_maps(inferencer, 'test', tmp_path, ['npy', 'gallery'],
                        resume=True)
    assert again == (0, 3)
    with pytest.raises(FileExistsError, match='--overwrite'):
        export_maps(inferencer, 'test', tmp_path, ['npy'])
