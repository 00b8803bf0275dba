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


def plot_guarantees(result: dict, level: float, path: str) -> None:
    """How often a promise is broken, on the same drive and on another; and
    what an alarm that misses little costs."""
    import matplotlib
    matplotlib.use('Agg')
    from matplotlib import pyplot as plt
    home, away = result['images']

    def rows(key: str, risk: str, **wanted) -> dict[str, dict]:
        return {r['method']: r for r in result[key]
                if r['risk'] == risk and r['level'] == level
                and all(r[name] == value for name, value in wanted.items())}

    figure, (kept, price) = plt.subplots(1, 2, figsize=(10, 3.8))
    _bars(kept, 'measured', {
        f'new images of the same drive ({home})': rows(
            'random_splits', 'coverage 0.9', drive=home),
        f'another drive ({away}): no promise': rows(
            'other_drive', 'coverage 0.9')})
    kept.axhline(100 * level, color='k', linestyle='--', label='promised')
    kept.set_ylabel('images with more than 10 % of the\npixels not covered, %')
    _bars(price, 'price', {drive: rows('random_splits', 'miss', drive=drive)
                           for drive in (home, away)})
    price.set_ylabel('known pixels flagged so that at most\n'
                     f'{100 * level:g} % of the unknown are missed, %')
    for axes in (kept, price):
        axes.set_ylim(0, 1.45 * axes.get_ylim()[1])
        axes.legend(fontsize=8, loc='upper left')
    figure.tight_layout()
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format='png', dpi=120)
    plt.close(figure)


def _bars(axes, value: str, groups: dict[str, dict[str, dict]]) -> None:
    """Bars of methods side by side, in percent; errors are two standard
    errors."""
    for side, (label, rows) in enumerate(groups.items()):
        places = [place + 0.4 * side - 0.2 for place in range(len(rows))]
        errors = [200 * row['error'] if value == 'measured' and 'error' in row
                  else 0 for row in rows.values()]
        axes.bar(places, [100 * row[value] for row in rows.values()], 0.36,
                 yerr=errors, color=('C0', 'C3')[side], label=label)
        axes.set_xticks(range(len(rows)), list(rows))
