"""The zoo's table, as ``tools/benchmark.py zoo`` writes it."""
import argparse

from benchmarks import zoo
from benchmarks.zoo_models import what_is_missing


def test_the_table_replaces_the_old_one_below_the_mark(tmp_path):
    page = tmp_path / 'zoo.md'
    page.write_text(f'# By hand\n\n{zoo.MARK}\n\n| old |\n')
    parser = argparse.ArgumentParser()
    zoo.add_arguments(parser)
    names = ['SegFormer MiT-B0', 'CGNet', 'PointRend R50']
    args = parser.parse_args([
        '--models', *names, '--size', '64', '64', '--draws', '2',
        '--repeats', '1', '--markdown', str(page)])
    rows = {row['model']: row for row in zoo.run(args)['zoo']}
    assert list(rows) == names
    segformer = rows['SegFormer MiT-B0']
    assert segformer['norms'] == '30/30 layer, 5/5 batch'
    assert 0.2 < segformer['trained_percent'] < 0.3
    assert segformer['ratio_all'] > 1 and not segformer['one_by_one']
    # CGNet's head is one convolution.
    assert 'ratio_decode_head' not in rows['CGNet']
    text = page.read_text()
    assert text.startswith('# By hand\n\n') and '| old |' not in text
    assert '| CGNet | 54/54 batch | 0.5 M |' in text
    missing = what_is_missing('PointRend R50')
    assert (missing is None) == ('not built' not in text)
