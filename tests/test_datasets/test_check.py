"""Claims about the dataset check: it counts right and misses nothing."""
import json

import numpy as np
import pytest
from mmengine.config import Config, ConfigDict

from abnn_mmseg.datasets.check import check_config, leaf_datasets


def muad_cfg(root, split='train'):
    return ConfigDict(
        type='MUADDataset', data_root=str(root), split=split, pipeline=[])


def check(dataset):
    return check_config(ConfigDict(test_dataloader=dict(dataset=dataset)))


def test_counts_and_shares_are_exact(muad):
    report, = check(muad_cfg(muad))
    assert report.images == 3
    assert report.sizes == {'23 x 4': 3}
    assert report.pixels.tolist() == [12] * 15
    assert (report.ood, report.void, report.total) == (72, 24, 276)
    summary = report.to_dict()
    assert summary['ood_share'] == pytest.approx(6 / 23)
    assert summary['class_share']['bus'] == pytest.approx(1 / 23)
    assert not report.problems


def test_every_problem_is_listed_not_only_the_first(muad, save):
    labels = muad / 'train/leftLabel'
    save(labels / '000000_leftLabel.png', np.full((4, 23), 99))
    save(labels / '000001_leftLabel.png', np.zeros((4, 22)))
    image = muad / 'train/leftImg8bit/000002_leftImg8bit.png'
    image.write_bytes(image.read_bytes()[:60])
    save(labels / '000009_leftLabel.png', np.zeros((4, 23)))
    report, = check(muad_cfg(muad))
    text = '\n'.join(report.problems)
    assert len(report.problems) == 4
    for part in ('99', '22x4', '000002_leftImg8bit', 'without image'):
        assert part in text


def test_a_missing_folder_does_not_hide_the_other_datasets(muad):
    both = ConfigDict(
        type='ConcatDataset',
        datasets=[muad_cfg(muad, 'val'), muad_cfg(muad, 'test_ood')])
    missing, found = check(both)
    assert 'no folder' in missing.problems[0]
    assert found.images == 2
    repeated = ConfigDict(type='RepeatDataset', times=2, dataset=both)
    assert len(list(leaf_datasets(repeated))) == 2


def test_plain_mmseg_datasets_are_checked_against_their_classes(
        tmp_path, save_pair):
    save_pair(tmp_path / 'i/x/a_leftImg8bit.png',
              tmp_path / 'l/x/a_gtFine_labelTrainIds.png', [[0, 18, 255]] * 2)
    dataset = ConfigDict(
        type='CityscapesDataset',
        data_root=str(tmp_path),
        data_prefix=dict(img_path='i', seg_map_path='l'))
    report, = check(dataset)
    assert (report.total, report.void, report.problems) == (6, 2, [])
    save_pair(tmp_path / 'i/x/a_leftImg8bit.png',
              tmp_path / 'l/x/a_gtFine_labelTrainIds.png', [[0, 33, 255]] * 2)
    report, = check(dataset)
    assert '33' in report.problems[0]


def test_the_command_writes_json_and_fails_on_problems(
        muad, tmp_path, run_tool, capsys):
    config, report = tmp_path / 'config.py', tmp_path / 'report.json'
    Config(
        dict(
            test_dataloader=dict(dataset=muad_cfg(muad, 'test_ood')),
            test_evaluator=[],
            test_sets=dict(
                ood=dict(split='test_ood'), other=dict(split='train')),
            val_dataloader=dict(dataset=muad_cfg(muad, 'val')))).dump(config)
    assert run_tool('check_dataset.py', config, '--split', 'test', '--json',
                    report) == 0
    assert 'OOD' in capsys.readouterr().out
    assert [r['images'] for r in json.loads(report.read_text())] == [2]
    assert run_tool('check_dataset.py', config, '--datasets', '--json',
                    report) == 0
    assert [(r['loader'], r['images'])
            for r in json.loads(report.read_text())] == [('ood', 2),
                                                         ('other', 3)]
    assert run_tool('check_dataset.py', config) == 1
    assert 'no folder' in capsys.readouterr().out
