"""The inferencer in other people's programs: any image, any process."""
import io
import runpy
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from PIL import Image
from sketches import abnn_config
from torch.utils.data import DataLoader, Dataset
from toys import build

from abnn_mmseg.export import ABNNInferencer

EXAMPLES = Path(__file__).resolve().parents[2] / 'examples'


@pytest.fixture(scope='module')
def inferencer(sketch, base, tmp_path_factory):
    cfg = abnn_config(sketch, tmp_path_factory.mktemp('work'), base)
    return ABNNInferencer(cfg, str(base), device='cpu',
                          scores=['entropy', 'mutual_information'])


@pytest.fixture
def path(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 255, (32, 48, 3), np.uint8)
    cv2.imwrite(str(tmp_path / 'street.png'), pixels)
    return tmp_path / 'street.png'


def test_an_image_of_any_library_gives_the_map_of_its_file(inferencer, path):
    [expected] = inferencer(path)
    picture = Image.open(path)
    tensor = torch.from_numpy(np.array(picture)).permute(2, 0, 1)
    given = [picture, picture.convert('RGBA'), tensor, tensor.float(),
             cv2.imread(str(path))]
    for result in [*inferencer(given), *inferencer(tensor[None])]:
        np.testing.assert_array_equal(
            result.maps['entropy'], expected.maps['entropy'])


def test_a_turned_photo_is_turned_as_the_loader_does(inferencer, path,
                                                     tmp_path):
    picture = Image.open(path)
    exif = picture.getexif()
    exif[0x0112] = 6
    picture.save(tmp_path / 'photo.png', exif=exif)
    file, = inferencer(tmp_path / 'photo.png')
    own, = inferencer(Image.open(tmp_path / 'photo.png'))
    assert own.prediction.shape == file.prediction.shape == (48, 32)
    np.testing.assert_array_equal(own.maps['entropy'], file.maps['entropy'])


@pytest.mark.parametrize('bad, words', [
    (torch.rand(3, 8, 8), 'multiply it by 255'),
    (torch.zeros(8, 8), r'give \[C, H, W\]'),
    (torch.zeros(4, 8, 8).byte(), r'model takes \[H, W, 3\]'),
    (Image.new('I;16', (8, 8)), r'model takes \[H, W, 3\]')])
def test_what_is_no_image_of_the_model_is_a_sentence(inferencer, bad, words):
    with pytest.raises(ValueError, match=words):
        inferencer(bad)


def test_results_are_tensors_when_asked(inferencer, path):
    result, = inferencer(path, probability=True)
    tensors = result.tensors()
    assert tensors.prediction.dtype == torch.int64
    assert torch.equal(tensors.probability.argmax(0), tensors.prediction)
    assert tensors.maps['entropy'].data_ptr() == (
        result.maps['entropy'].ctypes.data)


class Maps(Dataset):
    """Entropy as an input of somebody's own training."""

    def __init__(self, inferencer, images):
        self.inferencer, self.images = inferencer, images

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.inferencer(self.images[index])[0].maps['entropy']


def test_it_works_in_the_workers_of_a_data_loader(inferencer):
    images = list(np.random.default_rng(0).integers(
        0, 255, (4, 32, 48, 3), np.uint8))
    loader = DataLoader(Maps(inferencer, images), batch_size=2,
                        num_workers=2, timeout=300)
    found = torch.cat(list(loader))
    expected = torch.stack([
        torch.from_numpy(result.maps['entropy'])
        for result in inferencer(images)])
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)


def outputs(inferencer, image):
    result, = inferencer(image, probability=True)
    return [result.probability, *(
        result.maps[score] for score in inferencer.scores)]


@pytest.fixture(scope='module')
def shallow(sketch, tmp_path_factory):
    """Of one stage: a graph takes its time to be made."""
    folder = tmp_path_factory.mktemp('shallow')
    cfg = abnn_config(sketch, folder, folder / 'base.pth')
    cfg.model.backbone.update(
        num_stages=1, strides=(1, ), dilations=(1, ), out_indices=(0, ))
    cfg.model.decode_head = dict(
        type='FCNHead', in_channels=8, in_index=0, channels=8, num_convs=0,
        concat_input=False, num_classes=15, loss_decode=dict(
            type='RandomPriorCrossEntropyLoss'))
    torch.save(build(cfg.model).state_dict(), folder / 'base.pth')
    return ABNNInferencer(cfg, device='cpu', scores=['entropy'])


def test_the_module_is_the_model_compiled_or_traced(shallow, tmp_path):
    """One graph, of an image of any size."""
    inferencer = shallow
    module = inferencer.module
    assert isinstance(module, torch.nn.Module)
    pixels = np.random.default_rng(0).integers(0, 255, (32, 72, 3), np.uint8)
    image = torch.from_numpy(pixels)[None]
    expected = outputs(inferencer, pixels)
    traced = torch.jit.trace(module, image, check_trace=False)
    traced.save(str(tmp_path / 'traced.pt'))
    for made in (module, torch.jit.load(str(tmp_path / 'traced.pt')),
                 torch.compile(module, backend='aot_eager', fullgraph=True)):
        with torch.no_grad():
            for one, other in zip(expected, made(image)):
                np.testing.assert_allclose(other[0], one, atol=1e-4)


def test_the_server_answers_many_at_once(inferencer, path):
    """By httpx, through the app of the example."""
    pytest.importorskip('fastapi')
    pytest.importorskip('multipart')
    httpx = pytest.importorskip('httpx')
    testclient = pytest.importorskip('fastapi.testclient')
    app = runpy.run_path(str(EXAMPLES / 'serve.py'))['make_app'](inferencer)
    expected, = inferencer(path)
    with testclient.TestClient(app) as client:
        assert isinstance(client, httpx.Client)

        def post(data):
            return client.post('/predict', files=dict(image=data))

        with ThreadPoolExecutor(4) as pool:
            for answer in pool.map(post, [path.read_bytes()] * 8):
                assert answer.status_code == 200
                with np.load(io.BytesIO(answer.content)) as arrays:
                    np.testing.assert_array_equal(
                        arrays['entropy'], expected.maps['entropy'])
        broken = post(b'no image')
        assert broken.status_code == 422 and 'image' in broken.json()['detail']
