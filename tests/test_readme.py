"""What the README shows is what the package does."""
import re
from pathlib import Path

from mmengine.config import Config
from toys import build, toy_config

README = (Path(__file__).resolve().parents[1] / 'README.md').read_text()


def test_the_child_config_of_the_readme_builds(tmp_path):
    """Over somebody's own config, by path, in at most ten lines of change."""
    text = next(block for block in re.findall(
        r'```python\n(.*?)```', README, re.S) if '_base_' in block)
    mine = toy_config(auxiliary=False)
    mine['decode_head']['num_classes'] = 19
    Config(dict(
        model=mine, optim_wrapper=dict(optimizer=dict(type='SGD', lr=0.1)),
        train_cfg=dict(type='IterBasedTrainLoop', max_iters=9))).dump(
            tmp_path / 'my_deeplabv3plus.py')
    (tmp_path / 'my_abnn.py').write_text(text)
    cfg = Config.fromfile(tmp_path / 'my_abnn.py')
    model = build(cfg.model)
    assert len(model.conversion.converted) > 10
    assert model.posterior.alpha == 0.1 and cfg.train_cfg.max_iters == 800


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
