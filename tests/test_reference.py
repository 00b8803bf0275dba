"""The reference of the docs has every public name."""
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PATHS = re.findall(r'^::: (\S+)$', '\n'.join(
    page.read_text() for page in (ROOT / 'docs/reference').glob('*.md')),
    re.M)
# All that users import from; `utils` is for the package itself.
PACKAGES = [
    'comparison', 'datasets', 'engine', 'engine.hooks', 'evaluation',
    'export', 'export.gallery', 'export.writers', 'models',
    'models.posteriors', 'uncertainty']


@pytest.mark.parametrize('package', PACKAGES)
def test_every_public_name_is_in_the_reference(package):
    names = importlib.import_module(f'abnn_mmseg.{package}').__all__
    assert names
    assert not set(names) - {path.rpartition('.')[2] for path in PATHS}


@pytest.mark.parametrize('path', PATHS)
def test_what_the_reference_names_is_there(path):
    module, _, name = path.rpartition('.')
    assert hasattr(importlib.import_module(module), name)
