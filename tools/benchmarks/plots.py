"""Pictures of measurements."""
from abnn_mmseg.utils.files import atomic_path
from benchmarks.guarantee_splits import below, set_sizes
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


def plot_guarantees(result: dict, found: dict, level: float,
                    path: str) -> None:
    """Risks against what was promised, on the same drive and on another; and
    set sizes against coverage."""
    import matplotlib
    matplotlib.use('Agg')
    from matplotlib import pyplot as plt
    home, away = found
    rows = {(r['method'], r['drive']): r for r in result['random_splits']
            if r['risk'] == 'label-set' and r['level'] == level}
    other = {r['method']: r for r in result['other_drive']
             if r['risk'] == 'label-set' and r['level'] == level}
    figure, (kept, size) = plt.subplots(1, 2, figsize=(10, 3.8))
    for place, method in enumerate(found[home]):
        bars = [(rows.get((method, home)), 'C0'), (other.get(method), 'C3')]
        for side, (row, colour) in enumerate(bars):
            if row is not None:
                kept.bar(place + 0.4 * side - 0.2, 100 * row['measured'], 0.36,
                         color=colour, yerr=200 * row.get('error', 0))
        curve = found[home][method]
        size.plot(100 * (1 - below(curve['true']).mean(0)),
                  set_sizes(curve).mean(0), label=method)
    kept.axhline(100 * level, color='k', linestyle='--')
    kept.set_xticks(range(len(found[home])), list(found[home]))
    kept.set_ylabel('pixels whose set lacks the true class, %')
    kept.legend(handles=[
        plt.Line2D([], [], color='k', linestyle='--', label='promised'),
        plt.Rectangle((0, 0), 1, 1, color='C0',
                      label=f'new images of the same drive ({home})'),
        plt.Rectangle((0, 0), 1, 1, color='C3',
                      label=f'another drive ({away}): no promise')],
        fontsize=8)
    size.set_xlim(90, 100)
    size.set_ylim(0.9, 3.5)
    size.set_xlabel(f'coverage on {home}, %')
    size.set_ylabel('classes in a set')
    size.legend(fontsize=8)
    figure.tight_layout()
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format='png', dpi=120)
    plt.close(figure)
