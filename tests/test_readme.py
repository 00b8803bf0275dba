"""What tables of README and docs name exists and was measured."""
import json
import re
from itertools import product
from pathlib import Path

import pytest

from abnn_mmseg.comparison.report import lines
from abnn_mmseg.utils.files import read_lines

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / 'README.md').read_text()
RESULTS = (ROOT / 'docs/results.md').read_text()
COMPARISON = (ROOT / 'docs/comparison.md').read_text()
OPTIONS = (ROOT / 'docs/options.md').read_text()


def test_every_option_of_the_tables_exists():
    import inspect

    from abnn_mmseg.models import BNLPosterior
    from abnn_mmseg.models.posteriors.base import Posterior
    from abnn_mmseg.models.posteriors.forking import ForkingPosterior
    from abnn_mmseg.models.segmentor import BayesianSegmentor
    known = set()
    for cls in (BNLPosterior, ForkingPosterior, Posterior,
                BayesianSegmentor):
        known |= set(inspect.signature(cls.__init__).parameters)
    named = set()
    for row in re.findall(r'^\| (`[a-z_`, ]+`) \|', OPTIONS, re.M):
        named |= set(re.findall(r'`([a-z_]+)`', row))
    assert len(named) > 12
    assert named <= known, named - known


ENTROPY = 'ood/pooled/entropy/'
ACCURACY = [('test', 'seg/mIoU'), ('test', 'cal/pooled/ECE')]
HOME, ROAD, STATIC = ([(data, ENTROPY + name)
                       for name in ('AUROC', 'AUPR', 'FPR95')]
                      for data in ('test', 'roadanomaly', 'fs_static'))
VAL = [('val', 'seg/mIoU')]
FILES = ('camvid_views.json', 'away.json')
AGAIN = COMPARISON[COMPARISON.index('**The same with another base**'):]
PAGES = dict(
    readme=(README, HOME[::2] + ROAD[::2] + STATIC[::2], FILES),
    results=(RESULTS, ACCURACY + HOME, FILES),
    comparison=(COMPARISON, ROAD + STATIC + VAL, FILES),
    again=(AGAIN, ROAD + STATIC + VAL, ('away_again.json', )))


@pytest.mark.parametrize('page', PAGES)
def test_the_tables_of_methods_are_what_was_measured(page):
    text, columns, files = PAGES[page]
    rows = {key: row for file in files
            for key, row in measured(file).items()}
    _, *table = table_with('| method | cost |', text)
    assert len(table) >= 5
    for name, cost, *cells in table:
        if not cost:
            # From the earlier run on all test images.
            continue
        known = [rows.get((data, name)) for data, _ in columns]
        first = next(row for row in known if row)
        assert cost == f"{first['inference']['ratio']:.1f}"
        assert cells == [
            '' if row is None else cell(row, key)
            for row, (_, key) in zip(known, columns)]


def measured(file):
    """Rows by dataset and by name, which has the variant if it matters."""
    content = json.loads((ROOT / 'docs/benchmarks' / file).read_text())
    return {
        (row['dataset'], row['method'] + (
            f": {row['variant']}" if row['variant'] not in ('', 'base')
            else '')): row
        for row in content['rows']}


def cell(row, key):
    """A value of the base, and the difference to it of all others."""
    found = (row.get('difference') or {}).get(key)
    if found is None:
        return f"{row['metrics'][key]:.1f}"
    if found['low'] > -1e-6 and found['high'] < 1e-6:
        return "the base's"
    return (f"{found['value']:+.1f} [{found['low']:.1f}, "
            f"{found['high']:.1f}]")


def test_the_ensemble_was_measured():
    _, *table = table_with('| method | mIoU | ECE | by entropy |', RESULTS)
    content = json.loads((ROOT / 'docs/benchmarks/camvid.json').read_text())
    found = lines([r for r in content['rows'] if not r['group']], ['entropy'])
    known = {(' / '.join(line[k] for k in ('AUROC', 'AUPR', 'FPR95')),
              line['cost']) for line in found}
    assert len(table) == 7
    for name, _, _, score, _, cost in table[:-1]:
        assert (score, cost) in known, name


def test_the_readme_is_read_in_a_minute():
    assert len(README.splitlines()) <= 120


def test_what_was_tried_on_unseen_drives_is_in_the_logs():
    files = [ROOT / f'docs/benchmarks/camvid_unseen_{drive}.jsonl'
             for drive in ('0006R0', '0001TP')]
    logs = [read_lines([file]) for file in files]
    page = (ROOT / 'docs/comparison.md').read_text()
    header = '| | mean AUROC |'
    tables = [table_with(header, part)[1:] for part in (
        page, page[page.rindex(header):])]
    assert [len(table) for table in tables] == [15, 14]
    for row in tables[0] + tables[1]:
        assert any(row[1:] == [mean_auroc(pair), *cells(pair)]
                   for pair in product(*logs) if is_same_trial(*pair)), row


def is_same_trial(first, second):
    return all(first[name] == second[name]
               for name in ('train', 'test', 'variant'))


def mean_auroc(pair):
    values = [trial['metrics'][f'ood/pooled/{score}/AUROC']
              for trial in pair for score in ('entropy', 'energy')]
    return f'{sum(values) / len(values):.1f}'


def cells(pair):
    """Of a trial on both drives, as the tables of docs/comparison.md do."""
    return [f"{trial['metrics'][name]:.1f}" for trial in pair
            for name in ('seg/mIoU', 'cal/pooled/ECE')]


def table_with(start, text=README):
    """The cells of the first table whose header begins so."""
    block = text[text.index(start):].split('\n\n')[0].splitlines()
    return [[cell.strip() for cell in line.strip('|').split('|')]
            for line in [block[0], *block[2:]]]


def test_the_table_of_the_demo_is_what_it_wrote():
    page = (ROOT / 'docs/demo.md').read_text()
    rows = json.loads((ROOT / 'docs/benchmarks/demo.json').read_text())['rows']
    _, *table = table_with('| model | score |', page)
    assert table == [
        [row['model'], f"`{row['score']}`", *(
            f'{row[name]:.2f}' for name in (
                'mIoU', 'ECE', 'AUROC', 'AUPR', 'FPR95'))] for row in rows]
