"""List, merge, average, verify, calibrate, export and import members."""
import argparse

from mmengine.config import DictAction

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
from abnn_mmseg.utils.arguments import config_file
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
        sub.add_argument('config')
        sub.add_argument('base')
        sub.add_argument('file')
        sub.add_argument(
            '--images', type=int, help='images to use, evenly spread')
        sub.add_argument(
            '--cfg-options', nargs='+', action=DictAction,
            help='override settings, key=value')
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


def plain(member: dict) -> dict:
    """A member without the file it was read from."""
    return dict(state=member['state'], meta=member['meta'])


def run(args: argparse.Namespace) -> None:
    """Run ``abnn members``."""
    if 'out' in args:
        check_free(args.out, args.overwrite)
    if args.command == 'list':
        print_table('Members', listing(args.files))
    elif args.command in ('merge', 'average'):
        members = read_distinct(args.files)
        check_alike(members)
        merged = ([plain(m) for m in members]
                  if args.command == 'merge' else [average(members)])
        save_members(args.out, merged, members[0]['fingerprint'])
        print_table('Members', listing([args.out]))
    elif args.command == 'verify':
        model = build_segmentor(config_file(args.config), args.base)
        members = read_members(args.files)
        check_members(model, members)
        print(f'{len(members)} members fit {args.base}.')
    elif args.command in ('temperature', 'threshold'):
        cfg = config_file(args.config)
        cfg.merge_from_dict(args.cfg_options or {})
        model = build_segmentor(cfg, [args.base, args.file])
        if args.command == 'temperature':
            rows = fit_on(cfg, model, args.images)
            store(args.file, 'temperatures', {
                row['prediction']: row['temperature'] for row in rows
            }, model.posterior.noise_settings)
            print_table('Temperature, and NLL before and after', rows)
        else:
            rows = choose_thresholds(cfg, model, args.target_fpr,
                                     args.target_tpr, args.images)
            store(args.file, 'thresholds', {
                row['score']: row['threshold'] for row in rows
            }, model.posterior.noise_settings)
            print_table('Thresholds, and their rates on val in %', rows)
    elif args.command == 'export':
        members = read_members(args.file)
        if args.member is not None and not 0 <= args.member < len(members):
            raise ValueError(f'--member {args.member} is not in {args.file}, '
                             f'which holds {len(members)}.')
        model = build_segmentor(config_file(args.config), args.base)
        check_members(model, members)
        if args.member is None:
            export_whole(args.base, members, args.out)
        else:
            export_full(args.base, members[args.member], args.out)
        print(f'Written to {args.out}')
    else:
        model = build_segmentor(config_file(args.config), args.base)
        member = import_full(model, args.checkpoint)
        save_members(args.out, [member], fingerprint(model))
        print_table('Members', listing([args.out]))
