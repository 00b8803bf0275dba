"""A lower folder never imports a higher one, and no module its importer."""
import ast
from functools import cache
from pathlib import Path

import abnn_mmseg

ROOT = Path(abnn_mmseg.__file__).parent
# From the lowest layer to the highest.
LAYERS = ('compat', 'utils', 'uncertainty', 'models', 'datasets',
          'evaluation', 'members', 'engine', 'export', 'deploy',
          'comparison', 'cli', '__main__')


def modules() -> dict:
    found = {}
    for path in ROOT.rglob('*.py'):
        parts = path.relative_to(ROOT.parent).with_suffix('').parts
        found['.'.join(parts).removesuffix('.__init__')] = path
    return found


@cache
def imports(name: str) -> tuple:
    """Modules of the package that a module needs while it is imported."""
    known = modules()
    found = []
    for node in _executed(ast.parse(known[name].read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f'{node.module}.{alias.name}' for alias in node.names]
            found += [n if n in known else node.module for n in names]
        elif isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
    return tuple(n for n in dict.fromkeys(found) if n in known and n != name)


def _executed(tree):
    """Nodes outside functions and outside `if TYPE_CHECKING`."""
    for node in ast.iter_child_nodes(tree):
        typing = isinstance(node, ast.If) and 'TYPE_CHECKING' in ast.dump(
            node.test)
        if not typing and not isinstance(
                node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node
            yield from _executed(node)


def layer_of(name: str) -> str:
    return name.split('.')[1] if '.' in name else ''


def test_every_folder_has_a_layer_and_says_its_job():
    for path in ROOT.iterdir():
        if (path / '__init__.py').is_file():
            assert path.name in LAYERS
            tree = ast.parse((path / '__init__.py').read_text())
            assert ast.get_docstring(tree), path.name


def test_no_import_goes_upwards():
    wrong = [
        f'{name} imports {other}' for name in modules() if layer_of(name)
        for other in imports(name) if layer_of(other)
        and LAYERS.index(layer_of(other)) > LAYERS.index(layer_of(name))
    ]
    assert not wrong


def test_no_import_goes_round():
    state: dict = {}

    def visit(name: str, path: tuple) -> None:
        assert state.get(name) != 'open', ' -> '.join((*path, name))
        if name not in state:
            state[name] = 'open'
            for other in imports(name):
                # A package's own __init__ gathers what its modules define.
                if not name.startswith(f'{other}.'):
                    visit(other, (*path, name))
            state[name] = 'done'

    for name in modules():
        visit(name, ())
