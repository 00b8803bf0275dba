"""What tables of README and docs name exists and was measured."""
import json
import re
from itertools import product
from pathlib import Path

from abnn_mmseg.comparison.report import lines
from abnn_mmseg.comparison.search import read_log

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / 'README.md').read_text()
RESULTS = (ROOT / 'docs/results.md').read_text()
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


def test_the_methods_side_by_side_are_those_of_the_comparison():
    _, *table = table_with('| method | mIoU |', RESULTS)
    rows = json.loads((ROOT / 'docs/benchmarks/camvid.json').read_text())
    shown = [row for row in rows['rows'] if not row['group']]
    assert len(shown) == 8
    measured = []
    for line, other in zip(lines(shown, ['entropy']),
                           lines(shown, ['energy'])):
        first, last = list(line)[:4], ['+train min', 'cost', 'MB']
        measured.append([
            *(line[name] for name in first),
            *(' / '.join(score[name] for name in ('AUROC', 'AUPR', 'FPR95'))
              for score in (line, other)), *(line[name] for name in last)])
    assert table == measured
    # The README has some of the rows, without NLL and without energy.
    _, *short = table_with('| method | mIoU |')
    assert len(short) >= 5
    assert all(row in [m[:3] + [m[4]] + m[6:] for m in measured]
               for row in short)


def test_the_readme_is_read_in_a_minute():
    assert len(README.splitlines()) <= 120


def test_what_was_tried_on_unseen_drives_is_in_the_logs():
    files = [ROOT / f'docs/benchmarks/camvid_unseen_{drive}.jsonl'
             for drive in ('0006R0', '0001TP')]
    logs = [list(read_log(file)) for file in files]
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
