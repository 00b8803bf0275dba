"""What the tables of the README name exists."""
import re
from pathlib import Path

README = (Path(__file__).resolve().parents[1] / 'README.md').read_text()


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
