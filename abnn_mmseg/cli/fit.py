"""Fit a posterior over the norm parameters of a base: Laplace, SWAG, HMC."""
import argparse
from pathlib import Path

from mmengine.config import Config

from abnn_mmseg.fitting.laplace import STRUCTURES, fit_laplace
from abnn_mmseg.fitting.norm_chain import HMCSettings
from abnn_mmseg.fitting.sampling import fit_hmc
from abnn_mmseg.fitting.swag import fit_swag
from abnn_mmseg.members.files import KINDS
from abnn_mmseg.utils.arguments import add_config, read_config
from abnn_mmseg.utils.console import print_table
from abnn_mmseg.utils.files import check_free, claimed, sweep


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``abnn fit``."""
    commands = parser.add_subparsers(dest='method', required=True)

    def command(name: str, text: str) -> argparse.ArgumentParser:
        """Add a method, with the options that all methods share."""
        sub = commands.add_parser(name, help=text, description=text)
        add_config(sub, 'config of the base, or of its ABNN')
        sub.add_argument('base', help='checkpoint of the base')
        sub.add_argument(
            '--work-dir', help='for unfinished work and the result (default '
            f'work_dirs/{name}_CONFIG)')
        sub.add_argument(
            '--out', help='the member file (default: in the work folder)')
        sub.add_argument('--overwrite', action='store_true',
                         help='replace the member file if it exists')
        sub.add_argument('--scope', nargs='+', default=['all'],
                         help='layers whose norms vary (default all)')
        sub.add_argument('--seed', type=int, default=0)
        return sub

    sub = command('laplace', 'A Gaussian from the curvature of the loss.')
    sub.add_argument('--structure', choices=STRUCTURES, default='diagonal')
    sub.add_argument('--rank', type=int, default=20, help='rows to keep')
    sub.add_argument('--draws', type=int, default=4,
                     help='draws of the labels of each image')
    sub.add_argument('--images', type=int, help='number of training images')
    sub.add_argument('--val-images', type=int, default=12,
                     help='to choose prior precision and temperature on')
    _add_pixels(sub)
    sub.add_argument('--device', help='such as cpu or cuda:0')
    sub = command('swag', 'A Gaussian from the trajectory of training.')
    sub.add_argument('--iterations', type=int, default=200)
    sub.add_argument('--every', type=int, default=5,
                     help='iterations between snapshots')
    sub.add_argument('--lr', type=float, default=0.01, help='constant rate')
    sub.add_argument('--rank', type=int, default=20, help='rows to keep')
    sub.add_argument('--device', help='such as cpu or cuda:0')
    _add_hmc(command('hmc', 'Samples of the posterior itself.'))


def _add_hmc(sub: argparse.ArgumentParser) -> None:
    own = HMCSettings()
    sub.add_argument('--images', type=int, help='number of training images')
    sub.add_argument('--chains', type=int, default=4)
    sub.add_argument('--jobs', type=int, default=1,
                     help='chains at once, each in a process')
    for name, text in (('samples', 'of each chain'),
                       ('burn_in', 'trajectories that adapt the step size'),
                       ('max_steps', 'of a trajectory'),
                       ('batch', 'images in a pass')):
        sub.add_argument(f'--{name.replace("_", "-")}', type=int,
                         default=getattr(own, name), help=text)
    for name, text in (('prior_std', 'standard deviation of the prior'),
                       ('temperature', 'below 1: a cold posterior'),
                       ('acceptance', 'wanted of trajectories')):
        sub.add_argument(f'--{name.replace("_", "-")}', type=float,
                         default=getattr(own, name), help=text)
    sub.add_argument('--prior-mean', choices=['base', 'zero'], default='base')
    sub.add_argument('--keep', type=int, default=32,
                     help='samples in the file (default 32)')
    _add_pixels(sub)


def _add_pixels(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--effective-pixels', type=float, metavar='E', help='how many '
        'independent pixels an image counts as (default: estimated)')


def run(args: argparse.Namespace) -> None:
    """Run ``abnn fit``."""
    folder = args.work_dir or (
        f'work_dirs/{args.method}_{Path(args.config).stem}')
    out = args.out or str(Path(folder) / f'{args.method}.pth')
    args.work_dir = folder
    cfg = read_config(args)
    scope = args.scope[0] if len(args.scope) == 1 else args.scope
    for place in (folder, out):
        sweep(place)
    with claimed(Path(folder)):
        check_free(out, args.overwrite)
        report = METHODS[args.method](args, cfg, out, folder, scope)
    for name in ('parameters', 'pixels', 'validation'):
        rows = report.pop(name, None)
        if rows:
            print_table(name, rows if isinstance(rows, list) else [rows])
    print_table(f'Fit: {args.method}', [
        dict(number=name, value=value) for name, value in report.items()
        if isinstance(value, (int, float, str))])
    print(f'{out} is for {KINDS[args.method]}: give it with the base, or '
          "name it in the posterior's members.")


def _laplace(args, cfg: Config, out: str, folder: str, scope) -> dict:
    return fit_laplace(
        cfg, args.base, out, folder, args.structure, args.rank, args.draws,
        args.images, args.val_images, args.effective_pixels, scope,
        args.seed, args.device)


def _swag(args, cfg: Config, out: str, folder: str, scope) -> dict:
    return fit_swag(
        cfg, args.base, out, folder, args.iterations, args.every, args.lr,
        args.rank, scope, args.seed, args.device)


def _hmc(args, cfg: Config, out: str, folder: str, scope) -> dict:
    names = ('images', 'samples', 'burn_in', 'prior_std', 'prior_mean',
             'temperature', 'effective_pixels', 'acceptance', 'max_steps',
             'batch', 'seed')
    settings = HMCSettings(**{name: getattr(args, name) for name in names})
    return fit_hmc(cfg, args.base, out, folder, settings, args.chains,
                   args.jobs, args.keep, scope)


METHODS = dict(laplace=_laplace, swag=_swag, hmc=_hmc)
