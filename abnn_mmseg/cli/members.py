"""List, merge, average, verify, calibrate, export and import members."""
import argparse
from collections.abc import Sequence

from abnn_mmseg.engine.loading import build_segmentor
from abnn_mmseg.members.exchange import (
    average,
    check_alike,
    export_full,
    export_whole,
    import_full,
)
from abnn_mmseg.members.files import (
    check_members,
    fingerprint,
    kind_of,
    read_distinct,
    read_members,
    save_members,
    store,
)
from abnn_mmseg.members.temperature import fit_on
from abnn_mmseg.members.thresholds import choose_thresholds
from abnn_mmseg.models.segmentor import BayesianSegmentor
from abnn_mmseg.utils.arguments import add_config, config_file, read_config
from abnn_mmseg.utils.console import print_table
from abnn_mmseg.utils.files import check_free


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``abnn members``."""
    commands = parser.add_subparsers(dest='command', required=True)

    def command(name: str, text: str) -> argparse.ArgumentParser:
        """Add a subcommand."""
        return commands.add_parser(name, help=text, description=text)

    sub = command('list', 'What the files hold.')
    sub.add_argument('files', nargs='+')
    for name, text in (('merge', 'All members in one file.'),
                       ('average', 'One member, the mean of all.')):
        sub = command(name, text)
        sub.add_argument('files', nargs='+')
        _add_out(sub)
    sub = command('verify', 'Whether members fit a config and its base.')
    sub.add_argument('config')
    sub.add_argument('base')
    sub.add_argument('files', nargs='+')
    for name, text in (
        ('temperature', 'Fit it on the validation set; store it.'),
        ('threshold', 'Choose it on the validation set; store it.')):
        sub = command(name, text)
        add_config(sub)
        sub.add_argument('base')
        sub.add_argument('file')
        sub.add_argument(
            '--images', type=int, help='images to use, evenly spread')
    target = sub.add_mutually_exclusive_group(required=True)
    target.add_argument(
        '--target-fpr', type=float,
        help='share of in-distribution pixels taken for anomalies')
    target.add_argument(
        '--target-tpr', type=float, help='share of OOD pixels found')
    sub = command('export', 'One checkpoint with the base and all members.')
    sub.add_argument('config')
    sub.add_argument('base')
    sub.add_argument('file')
    _add_out(sub)
    sub.add_argument(
        '--member', type=int, help='a standard mmseg checkpoint of this one, '
        'counted from 0, for tools that know no members')
    sub = command('import', 'A member file of a full checkpoint.')
    sub.add_argument('config')
    sub.add_argument('base')
    sub.add_argument('checkpoint')
    _add_out(sub)


def _add_out(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('out', help='file for the result')
    parser.add_argument('--overwrite', action='store_true',
                        help='replace it if it exists')


def listing(files) -> list:
    """Rows of a table: what each member of some files is."""
    rows = []
    for member in read_members(files):
        meta = member['meta']
        rows.append(dict(
            file=member['path'], base=member['fingerprint'],
            kind=kind_of(member) or 'trained',
            seed=meta.get('seed'), alpha=meta.get('alpha'),
            scope=meta.get('scope'), iterations=meta.get('iterations'),
            kilobytes=round(sum(
                t.nbytes for t in member['state'].values()) / 1024)))
    return rows


def run(args: argparse.Namespace) -> None:
    """Run ``abnn members``."""
    if 'out' in args:
        check_free(args.out, args.overwrite)
    COMMANDS[args.command](args)


def _list(args: argparse.Namespace) -> None:
    print_table('Members', listing(args.files))


def _merge(args: argparse.Namespace) -> None:
    members = read_distinct(args.files)
    check_alike(members)
    _save(args, members, members[0]['fingerprint'])


def _average(args: argparse.Namespace) -> None:
    members = read_distinct(args.files)
    _save(args, [average(members)], members[0]['fingerprint'])


def _verify(args: argparse.Namespace) -> None:
    members = read_members(args.files)
    check_members(_base_model(args), members)
    print(f'{len(members)} members fit {args.base}.')


def _temperature(args: argparse.Namespace) -> None:
    cfg = read_config(args)
    model = build_segmentor(cfg, [args.base, args.file])
    rows = fit_on(cfg, model, args.images)
    store(args.file, 'temperatures', {
        row['prediction']: row['temperature'] for row in rows
    }, model.posterior.noise_settings)
    print_table('Temperature, and NLL before and after', rows)


def _threshold(args: argparse.Namespace) -> None:
    cfg = read_config(args)
    model = build_segmentor(cfg, [args.base, args.file])
    rows = choose_thresholds(cfg, model, args.target_fpr, args.target_tpr,
                             args.images)
    store(args.file, 'thresholds', {
        row['score']: row['threshold'] for row in rows
    }, model.posterior.noise_settings)
    print_table('Thresholds, and their rates on val in %', rows)


def _export(args: argparse.Namespace) -> None:
    members = read_members(args.file)
    if args.member is not None and not 0 <= args.member < len(members):
        raise ValueError(f'--member {args.member} is not in {args.file}, '
                         f'which holds {len(members)}.')
    check_members(_base_model(args), members)
    if args.member is None:
        export_whole(args.base, members, args.out)
    else:
        export_full(args.base, members[args.member], args.out)
    print(f'Written to {args.out}')


def _import(args: argparse.Namespace) -> None:
    model = _base_model(args)
    _save(args, [import_full(model, args.checkpoint)], fingerprint(model))


def _base_model(args: argparse.Namespace) -> BayesianSegmentor:
    return build_segmentor(config_file(args.config), args.base)


def _save(args: argparse.Namespace, members: Sequence[dict],
          base: str) -> None:
    """Write members to the result, without the files they came from."""
    save_members(args.out, [
        dict(state=member['state'], meta=member['meta'])
        for member in members], base)
    print_table('Members', listing([args.out]))


COMMANDS = {
    'list': _list, 'merge': _merge, 'average': _average, 'verify': _verify,
    'temperature': _temperature, 'threshold': _threshold, 'export': _export,
    'import': _import}
