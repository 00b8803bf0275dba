"""What the tables of the README name exists and was measured."""
import json
import re
from pathlib import Path

from abnn_mmseg.apis.comparison.report import lines

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / 'README.md').read_text()


def test_every_option_of_the_tables_exists():
    import inspect

    from abnn_mmseg.models import BNLPosterior
    from abnn_mmseg.models.posteriors.forking import ForkingPosterior
    from abnn_mmseg.models.segmentor import BayesianSegmentor
    known = set()
    for cls in (BNLPosterior, ForkingPosterior, BayesianSegmentor):
        known |= set(inspect.signature(cls.__init__).parameters)
    named = set()
    for row in re.findall(r'^\| (`[a-z_`, ]+`) \|', README, re.M):
        named |= set(re.findall(r'`([a-z_]+)`', row))
    assert len(named) > 12
    assert named <= known, named - known


def test_the_methods_side_by_side_are_those_of_the_comparison():
    _, *table = table_with('| method | mIoU |')
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


def table_with(start):
    """The cells of the README's table whose header begins so."""
    block = README[README.index(start):].split('\n\n')[0].splitlines()
    return [[cell.strip() for cell in line.strip('|').split('|')]
            for line in [block[0], *block[2:]]]
