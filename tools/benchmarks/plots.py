"""Pictures of measurements."""
from abnn_mmseg.utils.files import atomic_path
from benchmarks.networks import SCOPES


def plot_inference(result: dict, path: str) -> None:
    """Cost of K draws by scope, and error of the maps against K."""
    import matplotlib
    matplotlib.use('Agg')
    from matplotlib import pyplot as plt
    figure, (cost, error) = plt.subplots(1, 2, figsize=(10, 4))
    for scope in SCOPES:
        cost.loglog([row['draws'] for row in result['costs']],
                    [row[scope] for row in result['costs']], 'o-',
                    label=f'scope {scope}')
    for name, mark in (('element', 'x'), ('copies', '+')):
        cost.loglog(result['draws'], result[f'ratio_{name}'], f'k{mark}',
                    label=name)
    cost.set_xlabel('draws')
    cost.set_ylabel('cost, in deterministic passes')
    cost.legend(fontsize=8)
    for score, style in (('entropy', 'o-'), ('mutual_information', 's--')):
        for antithetic, colour in ((True, 'C0'), (False, 'C1')):
            rows = [r for r in result['errors']
                    if r['antithetic'] == antithetic]
            error.loglog(
                [r['draws'] for r in rows], [r[score] for r in rows], style,
                color=colour,
                label=f'{score}, {"pairs" if antithetic else "plain"}')
    error.set_xlabel('draws')
    error.set_ylabel('relative error of the map')
    error.legend(fontsize=8)
    for axes in (cost, error):
        axes.set_xscale('log', base=2)
        axes.xaxis.set_major_formatter('{x:g}')
    cost.set_yscale('log', base=2)
    cost.yaxis.set_major_formatter('{x:g}')
    figure.tight_layout()
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format='png', dpi=120)
    plt.close(figure)
