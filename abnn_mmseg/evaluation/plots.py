"""Save the curves of the metrics as PNG and JSON."""
import json
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from abnn_mmseg.evaluation.curves import DetectionCurve, RiskCoverage
from abnn_mmseg.utils import atomic_path, atomic_write


def save_detection(curves: dict[str, DetectionCurve], folder: str,
                   prefix: str) -> None:
    """Save ROC and precision-recall curves, one line per score.

    Writes ``<prefix>_roc.png``, ``<prefix>_pr.png``, ``<prefix>_curves.json``.
    """
    points = {score: curve.points() for score, curve in curves.items()}
    _save_json(points, folder, f'{prefix}_curves')
    with _figure(folder, f'{prefix}_roc', 'ROC', 'false positive rate',
                 'true positive rate') as axes:
        axes.plot([0, 1], [0, 1], ':', color='grey')
        for score, curve in curves.items():
            axes.plot(
                np.r_[0, points[score]['fpr']],
                np.r_[0, points[score]['tpr']],
                label=f'{score}: AUROC {100 * curve.auroc():.2f}')
    with _figure(folder, f'{prefix}_pr', 'Precision-recall', 'recall',
                 'precision') as axes:
        for score, curve in curves.items():
            axes.plot(
                points[score]['tpr'],
                points[score]['precision'],
                label=f'{score}: AUPR {100 * curve.average_precision():.2f}')


def save_risk_coverage(curves: dict[str, RiskCoverage], folder: str,
                       prefix: str) -> None:
    """Save risk-coverage curves, one line per score.

    Writes ``<prefix>_risk_coverage.png`` and ``.json``.
    """
    points = {score: curve.points() for score, curve in curves.items()}
    name = f'{prefix}_risk_coverage'
    _save_json(points, folder, name)
    with _figure(folder, name, 'Risk-coverage', 'coverage', 'risk',
                 square=False) as axes:
        for score, curve in curves.items():
            axes.plot(
                points[score]['coverage'],
                points[score]['risk'],
                label=f'{score}: AURC {100 * curve.aurc():.2f}')


def save_reliability(count: np.ndarray, confidence: np.ndarray,
                     right: np.ndarray, folder: str, prefix: str) -> None:
    """Save a reliability diagram: accuracy against confidence, by bin.

    Writes ``<prefix>_reliability.png`` and ``.json``.

    Args:
        count, confidence, right (np.ndarray): Number of pixels, sum of
            confidences and number of right pixels in each of B bins of equal
            width.
        folder (str): Folder of the files.
        prefix (str): Start of the file names.
    """
    bins, used = len(count), count > 0
    confidence = confidence[used] / count[used]
    accuracy = right[used] / count[used]
    lower = (np.arange(bins) / bins)[used]
    name = f'{prefix}_reliability'
    _save_json(
        dict(
            lower=lower,
            count=count[used],
            confidence=confidence,
            accuracy=accuracy), folder, name)
    ece = np.abs(accuracy - confidence) @ count[used] / count.sum()
    with _figure(folder, name, 'Reliability', 'confidence',
                 'accuracy') as axes:
        axes.plot([0, 1], [0, 1], ':', color='grey')
        axes.bar(
            lower,
            accuracy,
            1 / bins,
            align='edge',
            alpha=.6,
            label=f'accuracy: ECE {100 * ece:.2f}')
        axes.bar(
            lower,
            count[used] / count.sum(),
            1 / bins,
            align='edge',
            fill=False,
            label='share of pixels')
        axes.plot(confidence, accuracy, 'k.-')


@contextmanager
def _figure(folder: str, name: str, title: str, x: str, y: str,
            square: bool = True):
    """Axes to draw on; saved as ``folder/name.png`` afterwards."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            'plot_dir needs matplotlib: pip install matplotlib, or set '
            'plot_dir=None.') from error
    # Not pyplot: no global state, no display.
    figure = Figure(figsize=(5, 5), layout='constrained')
    axes = figure.add_subplot()
    yield axes
    axes.set(title=f'{title}, pooled', xlabel=x, ylabel=y, xlim=(0, 1))
    axes.set_ylim(0, 1 if square else None)
    axes.legend()
    with atomic_path(Path(folder) / f'{name}.png') as path:
        figure.savefig(path, dpi=150)


def _save_json(curve: dict, folder: str, name: str) -> None:
    text = json.dumps(curve, default=lambda array: array.tolist())
    atomic_write(Path(folder) / f'{name}.json', text)
