import json

from abnn_mmseg.cli.demo import Demo


def test_the_demo_ends_with_a_page_and_a_second_run_reuses_it(tmp_path):
    options = {'train_cfg.max_iters': 2}
    counts = dict(train=4, val=2, test_id=2, test_ood=3)
    rows = Demo(tmp_path, options, counts, members=2).run()
    assert {row['model'] for row in rows} == {'base', 'ABNN'}
    page = tmp_path / 'report' / 'index.html'
    assert 'MUAD-sketch' in page.read_text()
    assert json.loads((tmp_path / 'metrics.json').read_text())['rows'] == rows
    files = {p: p.stat().st_mtime_ns for p in tmp_path.rglob('*')
             if p.suffix in ('.pth', '.png', '.html', '.js')}
    assert Demo(tmp_path, options, counts, members=2).run() == rows
    for path, written in files.items():
        assert path.stat().st_mtime_ns == written, path
