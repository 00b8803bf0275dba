"""Make a student: the maps of all networks of a posterior in one pass."""
import argparse

from abnn_mmseg.engine.amp import DTYPES, default_dtype, train_with_amp
from abnn_mmseg.engine.distiller import FILE, distil
from abnn_mmseg.models.students import DESIGNS
from abnn_mmseg.utils.arguments import add_config, add_launcher, read_config
from abnn_mmseg.utils.console import print_table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``abnn distill``."""
    add_config(parser, 'config file of the teacher')
    parser.add_argument('base', help='checkpoint of the base')
    parser.add_argument(
        'members', nargs='*', help='member files of the teacher')
    parser.add_argument('--work-dir', help=f'where {FILE} goes')
    parser.add_argument(
        '--images', metavar='FOLDER',
        help='learn from all images below this folder, too; no labels needed')
    parser.add_argument(
        '--no-train-images', action='store_true',
        help="do not learn from the config's training images")
    parser.add_argument(
        '--design', choices=DESIGNS,
        help='a head on the original network, or a network with norms of its '
        'own (train_cfg.design, default: head)')
    parser.add_argument(
        '--iters', type=int, help='steps (train_cfg.max_iters)')
    parser.add_argument(
        '--resume', action='store_true', help='continue an interrupted run')
    parser.add_argument(
        '--overwrite', action='store_true', help='replace a finished student')
    parser.add_argument(
        '--amp', nargs='?', const=default_dtype(), choices=DTYPES,
        help='mixed precision (%(const)s)')
    add_launcher(parser)


def run(args: argparse.Namespace) -> None:
    """Distil, and print how near the student is to its teacher."""
    cfg = read_config(args)
    if not args.work_dir:
        # The config's own folder holds the members.
        cfg.work_dir = f'{cfg.work_dir}/student'
    cfg.resume = args.resume or cfg.get('resume', False)
    cfg.load_from = args.base
    if args.members:
        cfg.model.posterior.members = args.members
    if cfg.train_cfg.get('type') != 'DistillTrainLoop':
        cfg.train_cfg = dict(type='DistillTrainLoop')
    for name, value in (('max_iters', args.iters), ('images', args.images),
                        ('design', args.design)):
        if value is not None:
            cfg.train_cfg[name] = value
    if args.no_train_images:
        cfg.train_cfg.train_images = False
    if args.amp:
        train_with_amp(cfg, args.amp)
    rows = distil(cfg, args.overwrite)
    if rows:
        print_table(
            'Validation images with unknown things pasted in, by entropy; '
            'divergence from the teacher in nats', rows)
    print(f'Student: {cfg.work_dir}/{FILE}')
