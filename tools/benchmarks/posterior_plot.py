"""The figure of ``tools/benchmark.py posterior``."""
import re

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
    left.set_xlabel('alpha')
    left.set_ylabel('total variation to HMC, known images, %')
    left.legend(fontsize=6)
    for row in result['rows']:
        if row.get('AUROC') is None:
            continue
        kind = row['method'].split()[0].rstrip(',')
        x, y = row[f'TV unknown T={first}'], row['AUROC']
        right.plot(x, y, 'o', color=KINDS.get(kind, 'C8'))
        right.annotate(row['method'], (x, y), fontsize=5,
                       xytext=(3, 2), textcoords='offset points')
    right.set_xlabel('total variation to HMC, images with unknowns, %')
    right.set_ylabel('AUROC of the entropy, %')
    figure.tight_layout()
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format='png', dpi=120)
    plt.close(figure)
