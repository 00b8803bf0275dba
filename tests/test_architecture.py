"""A lower folder never imports a higher one, and no module its importer."""
import ast
import runpy
from functools import cache
from pathlib import Path

import abnn_mmseg

ROOT = Path(abnn_mmseg.__file__).parent
# From the lowest layer to the highest.
LAYERS = ('compat', 'utils', 'uncertainty', 'models', 'datasets',
          'evaluation', 'members', 'engine', 'fitting', 'deploy', 'export',
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


def test_the_picture_of_the_layers_is_that_of_the_code():
    docs = ROOT.parent / 'docs'
    drawn = runpy.run_path(str(docs / 'draw_layers.py'))
    assert (docs / 'layers.svg').read_text() == drawn['picture'](), (
        'run python docs/draw_layers.py')
    for layer, text in (*drawn['IMAGE'], *drawn['TRAINING']):
        file, names = text.split(': ')
        source = (ROOT / layer / file).read_text()
        for name in names.split(', '):
            assert f'def {name}(' in source or f'class {name}(' in source


def public_names(path: Path) -> list:
    """Public classes, functions and methods of a module."""
    found = []

    def visit(node, prefix: str) -> None:
        for child in node.body:
            if isinstance(child, (ast.ClassDef, ast.FunctionDef)) and (
                    not child.name.startswith('_')):
                found.append((prefix + child.name, child))
                if isinstance(child, ast.ClassDef):
                    visit(child, f'{prefix}{child.name}.')

    visit(ast.parse(path.read_text()), '')
    return found


def test_every_public_name_has_a_docstring():
    lacking = [
        f'{path.relative_to(ROOT)}: {name}' for path in ROOT.rglob('*.py')
        for name, node in public_names(path) if not ast.get_docstring(node)
    ]
    assert not lacking


# Of named tuples, public in spite of their names.
NAMED_TUPLE = ('_asdict', '_fields', '_replace')


def is_private(name: str) -> bool:
    return (name.startswith('_') and not name.startswith('__')
            and name not in NAMED_TUPLE)


def test_private_names_of_dependencies_are_in_compat_alone():
    trees = {path: ast.parse(path.read_text()) for path in ROOT.rglob('*.py')
             if path.name != 'compat.py'}
    nodes = [(path, node) for path, tree in trees.items()
             for node in ast.walk(tree)]
    own = {node.name for _, node in nodes
           if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    own |= {node.attr for _, node in nodes if isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)}
    wrong = [f'{path.relative_to(ROOT)}: {node.attr}' for path, node in nodes
             if isinstance(node, ast.Attribute) and is_private(node.attr)
             and node.attr not in own]
    for path, node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [*node.module.split('.'), *(a.name for a in node.names)]
            if 'abnn_mmseg' not in names and any(map(is_private, names)):
                wrong.append(f'{path.relative_to(ROOT)}: {node.module}')
    assert not wrong
