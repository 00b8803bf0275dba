"""Write docs/troubleshooting.md from the messages in the source.

    python docs/make_troubleshooting.py

Every ``raise`` of the package with a message is an entry. Most messages say
what to do themselves, after a semicolon; :data:`CURES` has the cure of those
that do not, and :data:`SECTIONS` the usual causes.
"""
import ast
import re
from pathlib import Path
from typing import Optional

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / 'docs/troubleshooting.md'
VALUE = '…'
# Folder or file of the package, title, usual causes.
SECTIONS = [
    ('cli utils/arguments utils/configs utils/choices utils/files',
     'Commands and configs',
     'A name is misspelt, a file is elsewhere, or a result of an earlier run '
     'would be replaced. Nothing has been computed yet when these appear.'),
    ('datasets', 'Images and labels',
     'Images and labels do not match, a label holds ids that its description '
     'does not name, or a copy is incomplete. `abnn check-dataset CONFIG` '
     'finds all such files at once.'),
    ('utils/checkpoints', 'Checkpoints',
     'The file is not a checkpoint, was cut off while it was copied, or comes '
     'from a training that diverged.'),
    ('members', 'Member files',
     'Members belong to one base and one config. They are refused around any '
     'other, since the maps would be wrong without a sign of it.'),
    ('models', 'Model, posterior and loss',
     'An option of the config has a value that it cannot have, or names '
     'layers that the model does not have.'),
    ('engine', 'Training and testing',
     'The config asks for something that the training cannot do, or another '
     'part of the config undoes what makes the network Bayesian.'),
    ('fitting', 'Fitting posteriors',
     'There is nothing to fit to, a chain does not move, or a file is that of '
     'a fit with other settings.'),
    ('uncertainty evaluation', 'Metrics and scores',
     'A metric needs a map or a label that is not there, or numbers are not '
     'finite.'),
    ('export utils/colours', 'Export and the page',
     'An input cannot be read, two results would have one name, or a folder '
     'holds the files of another model.'),
    ('deploy', 'ONNX',
     'A graph holds fixed networks and one way to compute: what depends on '
     'the size of the image or on chance cannot be in it.'),
    ('comparison', 'Comparing and searching',
     'The config of the comparison lacks a name or names a file that is not '
     'there.'),
    ('', 'Everything else', 'Messages of the package as a whole.'),
]
# Of messages that do not say it themselves: how they begin, what to do.
CURES = {
    'is written window by window': 'add the option that it names',
    '… does not exist.': 'check the path or the address',
    'needs the package rasterio': 'run the command that it names',
    'needs the package tifffile': 'run the command that it names',
    'need the package nibabel': 'run the command that it names',
    'comes without its image': 'export from a video, a camera or image '
    'files, not from arrays of maps',
    'no settings are in it': 'remove the `export.json` that it names',
    'needs the score of the alarm': 'add `--score entropy`',
    'with a guarantee': 'make one with `abnn certify`',
    'needs a guarantee that holds': 'run the command that it names',
    'must be': 'write such a value in its place',
    '--member … is not in': 'write one of the numbers it names',
    'must end in .onnx': 'name the result `model.onnx`, or `model.pt2` for '
    "torch.export's format",
    'images and labels do not match': 'rename or remove the files it lists; '
    '`abnn check-dataset CONFIG` lists all of them',
    'names no image': 'write one name a line in that file, or leave it out',
    'Labels must end in': 'rename the files it lists, or give the right '
    '`--label-suffix`',
    'label … has ids …': 'count the classes again, or write 255 where a pixel '
    'belongs to none',
    'label … has shape …': 'export the label at the size of its image',
    ': no images in': 'check `data_root` and `data_prefix` of the config',
    'counts=… must give': 'write numbers such as `train=400 test_ood=50`',
    'raw id … is outside': 'ids are those of an 8-bit PNG; map larger ones '
    'when you write the labels',
    'Cannot read image': 'open the file with another program; download or '
    'copy it again if that fails too',
    'Cannot read label': 'download or copy the label again',
    'has no label': 'give `data_prefix.seg_map_path`, or take '
    '`LoadAnomalyAnnotations` out of the pipeline',
    'Label … is …x…': 'labels must have the size of their image on disk; '
    'export them again',
    'onnxruntime differs': 'the graph would give other maps, so report the '
    'model in an issue; another opset or `--draws-per-pass` may help',
    'give at least 1': 'write a positive number',
    'has NaN values': 'the network gave no numbers for this image: check the '
    'image, and run in float32',
    'have NaN values': 'the network gave no numbers for this image: check the '
    'image, and run in float32',
    'has values other than 0': 'map your mask to 0, 1 and 255 with a label '
    'protocol',
    'needs matplotlib': '`pip install matplotlib`, or set `plot_dir=None`',
    'There is no result to show': 'check that the input folder holds images',
    'h5py': '`pip install h5py`',
    'opencv cannot write': 'choose another `--format`, or a folder that can '
    'be written',
    'pseudo-labels have 8 bits': 'train with fewer classes, or export `npy`',
    'Choose one of --overwrite': 'leave one of them out',
    'needs a threshold of': 'store one with `abnn members threshold`, or give '
    '`--threshold`',
    'the first number must be below': 'swap the two numbers',
    'would share files': 'rename one of the maps',
    'has no natural range': 'give the range with `--scale LOW HIGH`',
    'is not an option of': 'write the option it suggests',
    'the statistics are empty': 'update the statistics with the logits of a '
    'network before reading them',
    'getattr of': 'the file would run code when it is read; save a plain '
    'state dict and load that',
    'is unknown; …': 'write one of the names it lists',
    'is not a …; …': 'write one of the names it lists',
    'do not fit an indexed picture': 'export `npy` instead of `prediction`',
    '…… does not exist': 'check the path, and the folder the command runs in',
}


def messages() -> dict[str, list[tuple[str, str]]]:
    """Message and cure of every ``raise``, by module of the package."""
    found = {}
    for path in sorted((ROOT / 'abnn_mmseg').rglob('*.py')):
        entries = []
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Raise) and isinstance(
                    node.exc, ast.Call) and node.exc.args:
                text = message_of(node.exc.args[0])
                if text and len(text.replace(VALUE, '')) > 8:
                    entries.append((text, cure_of(text)))
        if entries:
            name = path.relative_to(ROOT / 'abnn_mmseg').with_suffix('')
            found[name.as_posix()] = sorted(set(entries))
    return found


def message_of(node: ast.expr) -> Optional[str]:
    """The text of an argument, with an ellipsis for each value in it."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return ''.join(part.value if isinstance(part, ast.Constant)
                       else VALUE for part in node.values)
    if isinstance(node, ast.BinOp):
        sides = message_of(node.left), message_of(node.right)
        return ''.join(side or VALUE for side in sides) if any(
            sides) else None
    return None


def cure_of(text: str) -> str:
    """What to do: the second half of a message, or one of ours."""
    parts = re.split(r'; |\. (?=[A-Z])|: (?=use |export )', text, maxsplit=1)
    if len(parts) == 2 and len(parts[1]) > 8 and 'must be' not in parts[1]:
        return parts[1].rstrip('.')
    return next((cure for piece, cure in CURES.items() if piece in text), '')


def page() -> str:
    """The whole page."""
    lines = [
        '# Troubleshooting', '',
        'Search this page for a piece of the message without your own names '
        f'and numbers; {VALUE} stands for those. Each entry is the message, '
        'and what to do. Made by `python docs/make_troubleshooting.py`.', '']
    left = messages()
    for folders, title, causes in SECTIONS:
        entries = [
            entry for name in sorted(left) for entry in left[name]
            if any(name.startswith(folder)
                   for folder in folders.split() or [''])]
        left = {name: rest for name, rest in left.items() if not any(
            name.startswith(f) for f in folders.split() or [''])}
        if entries:
            lines += [f'## {title}', '', causes, '']
            for text, cure in sorted(set(entries)):
                lines += entry(text, cure)
    return '\n'.join(lines).rstrip() + '\n'


def entry(text: str, cure: str) -> list[str]:
    said = ' '.join(text.split()).replace('`', "'")
    cure = ' '.join(cure.split())
    cure = cure[:1].upper() + cure[1:]
    return [f'- `{said}`', f'  **Do:** {cure}.', '']


if __name__ == '__main__':
    PAGE.write_text(page(), encoding='utf-8')
