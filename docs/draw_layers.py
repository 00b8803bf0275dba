"""Draw ``docs/layers.svg``: the layers of the package, and two walks.

    python docs/draw_layers.py
"""
import ast
from html import escape
from pathlib import Path

DOCS = Path(__file__).resolve().parent
PACKAGE = DOCS.parent / 'abnn_mmseg'
CHECKS = DOCS.parent / 'tests' / 'test_architecture.py'
# Each step is a layer and a file with a function of it.
IMAGE = (
    ('cli', 'export.py: run'),
    ('export', 'export.py: export_maps'),
    ('engine', 'loading.py: build_segmentor'),
    ('members', 'files.py: load_base, load_members'),
    ('export', 'inferencer.py: predict'),
    ('models', 'answering.py: answer'),
    ('models', 'posteriors/bank.py: make_networks'),
    ('uncertainty', 'statistics.py: update'),
    ('models', 'segmentor.py: conclude'),
    ('export', 'writers/base.py: write'),
)
TRAINING = (
    ('cli', 'train.py: run'),
    ('engine', 'trainer.py: train'),
    ('models', 'segmentor.py: BayesianSegmentor'),
    ('models', 'convert.py: convert_norms'),
    ('members', 'files.py: load_base'),
    ('engine', 'runners.py: training_runner'),
    ('models', 'losses.py: forward'),
    ('models', 'bayesian_norm.py: noisy_forward'),
    ('members', 'files.py: save_members'),
)
ROW, HEAD, WIDTH = 22, 20, 1080
WALKS = (('One image', IMAGE, 470, '#b3541e'),
         ('One training', TRAINING, 790, '#2b6ca3'))


def layers() -> list[str]:
    """The layers that the tests check, from the highest to the lowest."""
    for node in ast.parse(CHECKS.read_text()).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == 'LAYERS':
            names = ast.literal_eval(node.value)
            return [name for name in reversed(names) if name != '__main__']
    raise ValueError(f'{CHECKS} has no LAYERS.')


def job_of(layer: str) -> str:
    """The first sentence of a layer's docstring."""
    folder = PACKAGE / layer / '__init__.py'
    path = folder if folder.is_file() else PACKAGE / f'{layer}.py'
    text = ast.get_docstring(ast.parse(path.read_text()))
    return ' '.join(text.split('\n\n')[0].split())


def picture() -> str:
    """The picture as SVG."""
    parts, tops, y = [], {}, 40
    for layer in layers():
        most = max(sum(name == layer for name, _ in steps)
                   for _, steps, _, _ in WALKS)
        height = HEAD + ROW * max(1, most)
        tops[layer] = y
        parts.append(
            f'<rect x="10" y="{y}" width="{WIDTH - 20}" height="{height}" '
            'rx="6" fill="#f4f4f1" stroke="#c9c9c2"/>')
        parts.append(_text(22, y + 19, layer, 'font-weight="bold"'))
        for i, line in enumerate(_wrapped(job_of(layer), 46)):
            parts.append(_text(120, y + 19 + 14 * i, line, 'font-size="11"'))
        y += height + 8
    for title, steps, x, colour in WALKS:
        parts += _walk(title, steps, x, colour, tops)
    return '\n'.join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" '
        f'height="{y}" font-family="sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{y}" fill="white"/>',
        _text(22, 26, 'A layer imports only layers below it.'),
        *parts, '</svg>']) + '\n'


def _walk(title: str, steps: tuple, x: int, colour: str,
          tops: dict[str, int]) -> list[str]:
    """Numbered steps, in the bands of their layers, joined by a line."""
    used: dict[str, int] = {}
    places = []
    for layer, _ in steps:
        number = used[layer] = used.get(layer, -1) + 1
        places.append((x, tops[layer] + 19 + ROW * number))
    # To the right with every step, so that no line hides another.
    places = [(px + 9 * i, py) for i, (px, py) in enumerate(places)]
    points = ' '.join(f'{px},{py - 4}' for px, py in places)
    parts = [_text(x, 26, title, f'fill="{colour}" font-weight="bold"'),
             f'<polyline points="{points}" fill="none" stroke="{colour}" '
             'stroke-opacity="0.35" stroke-width="2"/>']
    for i, ((_, text), (px, py)) in enumerate(zip(steps, places)):
        parts.append(
            f'<circle cx="{px}" cy="{py - 4}" r="9" fill="{colour}"/>')
        parts.append(_text(px, py, str(i + 1),
                           'fill="white" font-size="11" text-anchor="middle"'))
        parts.append(_text(px + 14, py, text, 'font-size="12"'))
    return parts


def _text(x: int, y: int, text: str, style: str = '') -> str:
    return f'<text x="{x}" y="{y}" {style}>{escape(text)}</text>'


def _wrapped(text: str, width: int) -> list[str]:
    lines = ['']
    for word in text.split():
        if len(lines[-1]) + len(word) > width:
            lines.append('')
        lines[-1] += f'{word} '
    return [line.strip() for line in lines][:3]


if __name__ == '__main__':
    (DOCS / 'layers.svg').write_text(picture())
