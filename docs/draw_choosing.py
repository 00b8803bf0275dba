"""Draw the pictures of choosing.md, from the data and members of the demo.

    abnn demo
    python docs/draw_choosing.py work_dirs/demo

Each shows one image of unknown objects, its labels, and what changes with one
setting, everything else being that of the demo.
"""
import argparse
from itertools import islice
from pathlib import Path
from typing import Any

from mmengine.registry import init_default_scope
from mmseg.registry import DATASETS

from abnn_mmseg.cli.demo import Demo
from abnn_mmseg.comparison.figure import choose_images
from abnn_mmseg.export import ABNNInferencer, MapResult
from abnn_mmseg.export.items import find_items
from abnn_mmseg.export.overview import write_overview
from abnn_mmseg.uncertainty import map_name

HERE = Path(__file__).resolve().parent
POSTERIOR = 'model.posterior.'
# Settings of each picture, by the title of their map.
PICTURES: dict[str, dict[str, dict[str, Any]]] = dict(
    alpha={f'alpha {a}': {f'{POSTERIOR}alpha': a}
           for a in (0., 0.1, 0.2, 0.4)},
    scope={name: {f'{POSTERIOR}scope': scope} for name, scope in dict(
        all='all', stages=['stage2', 'stage3'], late='late',
        head='decode_head').items()},
    views={'one look': {f'{POSTERIOR}views': None},
           'four looks': {}},
    networks={f'{k} networks': {f'{POSTERIOR}networks': k}
              for k in (2, 4, 12)})
SCORES = ('msp', 'entropy', 'energy', 'expected_entropy',
          'mutual_information')


def main() -> None:
    """Write the pictures into this folder."""
    parser = argparse.ArgumentParser(description=(__doc__ or '').split('.')[0])
    parser.add_argument('demo', help='folder of a finished demo')
    parser.add_argument('--image', type=int, help='number in test_ood '
                        '(default: the one with the largest unknown)')
    args = parser.parse_args()
    demo = Demo(args.demo)
    init_default_scope('mmseg')
    number = args.image
    if number is None:
        dataset = DATASETS.build(demo.cfg['ABNN'].test_dataloader.dataset)
        number, = choose_images(dataset, range(len(dataset)), 1)
    for name, settings in PICTURES.items():
        maps = {}
        for title, options in settings.items():
            result = answer(demo, number, options)
            maps[map_name(title, 'entropy')] = result.maps['entropy']
        draw(name, demo, result, maps)
    result = answer(demo, number, {'model.scores': SCORES})
    draw('score', demo, result, {score: result.maps[score]
                                 for score in SCORES})


def answer(demo: Demo, number: int, options: dict) -> MapResult:
    """The demo's answer for one image of test_ood, with other options."""
    cfg = demo.cfg['ABNN'].copy()
    cfg.merge_from_dict(options)
    inferencer = ABNNInferencer(cfg, str(demo.base), demo.members)
    _, items = find_items(inferencer, 'test')
    item = next(islice(items, number, None))
    return next(inferencer.results([item.load]))


def draw(name: str, demo: Demo, result: MapResult, maps: dict) -> None:
    """One row: image, labels, class map, maps."""
    result.maps = maps
    palette = DATASETS.get('MUADDataset').METAINFO['palette']
    write_overview(HERE / f'choosing_{name}.jpg', [result], palette,
                   list(maps))


if __name__ == '__main__':
    main()
