import pytest
from mmengine.config import Config
from mmseg.registry import DATASETS
from sketches import abnn_config

from abnn_mmseg.comparison import tuning
from abnn_mmseg.comparison.tuning import judged, tune, write_search


@pytest.fixture
def config_file(sketch, base, tmp_path):
    cfg = abnn_config(sketch, tmp_path, base)
    cfg.dump(tmp_path / 'abnn.py')
    return str(tmp_path / 'abnn.py')


def test_validation_images_get_the_same_unknown_things_each_time(
        config_file, base, tmp_path):
    path = write_search(config_file, str(base), str(tmp_path / 'tune'), 2)
    cfg = Config.fromfile(path)
    first, again = (DATASETS.build(cfg.val_dataloader.dataset)[0]
                    for _ in range(2))
    assert first['inputs'].equal(again['inputs'])
    anomaly = first['data_samples'].gt_anomaly.data
    assert (anomaly == 1).any() and (anomaly == 0).any()
    assert (first['data_samples'].gt_sem_seg.data[anomaly == 1] == 255).all()


def test_settings_are_tried_and_judged_against_the_base(
        config_file, base, tmp_path, monkeypatch):
    tried = [{tuning.SCOPE: ['all'], tuning.ALPHA: [0.1],
              'train_cfg.max_iters': [0]},
             {tuning.ALPHA: [0.2], 'train_cfg.max_iters': [1]}]
    monkeypatch.setattr(tuning, 'grid', lambda cfg: tried)
    lines = tune(config_file, str(base), str(tmp_path / 'tune'), 1)
    assert len(lines) == 3
    assert 'base' in [line['setting'] for line in lines]
    assert all(0 <= line[name] <= 100 for line in lines
               for name in ('AUROC pasted', 'AUROC mistakes', 'mIoU'))
    assert (tmp_path / 'tune/trials.jsonl').stat().st_size > 0


def trial(alpha, variant, miou, pasted, mistakes):
    return dict(
        train={} if alpha is None else {tuning.ALPHA: alpha}, test={},
        variant=variant, metrics={
            'seg/mIoU': miou, tuning.PROXIES[0]: pasted,
            tuning.PROXIES[1]: mistakes})


def test_a_setting_that_costs_accuracy_comes_last():
    lines = judged([
        trial(None, '', 60., 80., 90.),
        trial(0.2, 'posterior mean', 50., 85., 91.),
        trial(0.2, 'centre', 59.6, 85., 91.),
        trial(0.4, 'posterior mean', 59., 95., 95.),
        trial(0.4, 'centre', 59.4, 95., 95.)])
    assert [line['setting'].rpartition('=')[2] for line in lines] == [
        '0.2', 'base', '0.4']
    assert [line['keeps'] for line in lines] == ['yes', 'yes', 'no']


def test_the_grid_has_the_middle_of_backbones_that_have_one(config_file):
    cfg = Config.fromfile(config_file)
    # The toy has two stages.
    assert all(tuning.MIDDLE not in one[tuning.SCOPE]
               for one in tuning.grid(cfg))
    ours = Config.fromfile('configs/abnn_deeplabv3plus_camvid.py')
    assert tuning.MIDDLE in tuning.grid(ours)[-1][tuning.SCOPE]


@pytest.mark.parametrize('change,message', [
    (dict(base='none.pth'), 'none.pth does not exist'),
    (dict(config='configs/deeplabv3plus_r18-d16_1xb4-1100_muad-sketch-'
          '128x256.py'), 'has no posterior.*abnn init'),
])
def test_mistakes_get_a_sentence(config_file, base, tmp_path, change,
                                 message):
    arguments = dict(config=config_file, base=str(base))
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        write_search(**{**arguments, **change}, folder=str(tmp_path),
                     images=1)
