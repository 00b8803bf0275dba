"""The figure of ``tools/benchmark.py posterior``."""
import re
from itertools import cycle

from abnn_mmseg.utils.files import atomic_path

KINDS = {'HMC': 'k', 'ABNN': 'C0', 'noise': 'C1', 'Laplace': 'C2',
         'SWAG': 'C3', 'MC': 'C4', 'members': 'C5', 'tuned': 'C6',
         'base': 'C7'}


def plot(result: dict, path: str) -> None:
    """Distance to HMC by alpha; and what a smaller distance is worth."""
    import matplotlib
    matplotlib.use('Agg')
    from matplotlib import pyplot as plt
    first = result['convergence'][0]['temperature']
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5))
    column = f'TV known T={first}'
    for name in ('ABNN', 'noise'):
        found = [(float(match[1]), row[column]) for row in result['rows']
                 if (match := re.fullmatch(
                     rf'{name}(?! per).*alpha = (.*)', row['method']))]
        if found:
            left.plot(*zip(*found), 'o-', color=KINDS[name], label=name)
    for row in result['rows']:
        kind = row['method'].split()[0].rstrip(',')
        is_line = 'alpha' not in row['method'] and 'HMC' not in row['method']
        if row['method'] == f'one HMC chain, T = {first}':
            left.axhline(row[column], color='k', ls='-', lw=1,
                         label='one HMC chain')
        elif is_line and column in row:
            left.axhline(row[column], color=KINDS.get(kind, 'C8'), ls=':',
                         label=row['method'])
    left.set_xscale('log')
    left.set_xticks(alphas := result['settings']['alphas'],
                    [f'{alpha:g}' for alpha in alphas])
    left.minorticks_off()
    left.set_xlabel('alpha')
    left.set_ylabel('total variation to HMC, known images, %')
    left.legend(fontsize=6)
    markers = cycle('sDv^<>pPX*hd')
    for row in result['rows']:
        if row.get('AUROC') is None:
            continue
        name, _, alpha = row['method'].partition(', alpha = ')
        kind = name.split()[0].rstrip(',')
        point = row[f'TV unknown T={first}'], row['AUROC']
        # Methods with several values of alpha share a line of the legend.
        is_known = name in right.get_legend_handles_labels()[1]
        is_curve = alpha and 'pixel' not in name
        right.plot(*point, 'o' if is_curve else next(markers), ms=5,
                   color=KINDS.get(kind, 'C8'),
                   label=None if is_known else name)
        if alpha:
            right.annotate(alpha, point, fontsize=6, xytext=(4, 3),
                           textcoords='offset points')
    right.legend(fontsize=6, loc='center', bbox_to_anchor=(0.66, 0.5),
                 title='numbers: alpha', title_fontsize=6)
    right.set_xlabel('total variation to HMC, images with unknowns, %')
    right.set_ylabel('AUROC of the entropy, %')
    figure.tight_layout()
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format='png', dpi=120)
    plt.close(figure)
