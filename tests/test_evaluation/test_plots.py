import json

import pytest
from PIL import Image

from abnn_mmseg.evaluation import (
    AnomalyMetric,
    CalibrationMetric,
    SelectiveMetric,
)

FILES = [
    (AnomalyMetric, ['ood_roc.png', 'ood_pr.png', 'ood_curves.json']),
    (CalibrationMetric, ['cal_reliability.png', 'cal_reliability.json']),
    (SelectiveMetric, ['sel_risk_coverage.png', 'sel_risk_coverage.json']),
]


@pytest.mark.parametrize('metric, names', FILES)
def test_curves_are_drawn_and_written(make_sample, evaluate, tmp_path, metric,
                                      names):
    evaluate(metric(plot_dir=str(tmp_path / 'new')), [make_sample()])
    assert sorted(p.name for p in tmp_path.glob('new/*')) == sorted(names)
    for name in names:
        if name.endswith('.png'):
            Image.open(tmp_path / 'new' / name).verify()
        else:
            assert json.loads((tmp_path / 'new' / name).read_text())


def test_no_folder_no_files(make_sample, evaluate, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for metric, _ in FILES:
        evaluate(metric(), [make_sample()])
    assert not list(tmp_path.iterdir())
