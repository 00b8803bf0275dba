"""The demo runs, from the base in the package or from one of its own."""
import json

from abnn_mmseg.cli.demo import Demo
from abnn_mmseg.datasets.muad_sketch import BASE_CHECKPOINT


def test_the_demo_ends_with_a_page_and_a_second_run_reuses_it(tmp_path):
    options = {'train_cfg.max_iters': 2}
    counts = dict(train=4, val=2, test_id=2, test_ood=3)
    rows = Demo(tmp_path, options, counts, members=2).run()
    assert [row['model'] for row in rows] == ['base', 'TTA', 'ABNN', 'ABNN']
    assert not (tmp_path / 'abnn' / 'validation.json').exists()
    page = tmp_path / 'report' / 'index.html'
    assert 'MUAD-sketch' in page.read_text()
    assert json.loads((tmp_path / 'metrics.json').read_text())['rows'] == rows
    files = {p: p.stat().st_mtime_ns for p in tmp_path.rglob('*')
             if p.suffix in ('.pth', '.html', '.js')}
    assert Demo(tmp_path, options, counts, members=2).run() == rows
    for path, written in files.items():
        assert path.stat().st_mtime_ns == written, path


def test_the_demo_can_train_its_base(tmp_path):
    demo = Demo(tmp_path, {'train_cfg.max_iters': 2},
                dict(train=4, val=2, test_id=2, test_ood=3), members=2,
                trains_base=True, base_counts=dict(train=8, val=2))
    demo.run()
    assert (tmp_path / 'base.pth').is_file()
    assert 'Train the base network' in demo.seconds


def test_the_base_of_the_package_is_small():
    assert BASE_CHECKPOINT.stat().st_size < 5e6
