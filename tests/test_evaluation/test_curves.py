import numpy as np
import pytest
import torch
from sklearn import metrics as sk

from abnn_mmseg.evaluation.curves import (
    DetectionCurve,
    RiskCoverage,
    equal_mass_bins,
)
from abnn_mmseg.evaluation.histograms import ScoreHistogram


def histogram(scores, labels, **kwargs):
    return ScoreHistogram.from_scores(
        torch.as_tensor(scores), torch.as_tensor(labels), **kwargs)


def detection(scores, labels, **kwargs):
    return DetectionCurve(histogram(scores, labels, **kwargs), (1, ), (0, ))


def fpr_at_nearest_recall(scores, labels, level=0.95):
    """By definition: try all thresholds, from the lowest."""
    best, value = np.inf, None
    for threshold in np.unique(scores):
        alarm = scores >= threshold
        distance = abs(alarm[labels == 1].mean() - level)
        fpr = alarm[labels == 0].mean()
        found_all = alarm[labels == 1].all()
        # With all positives found only the highest threshold counts.
        if distance < best or (found_all and distance == best):
            best, value = distance, fpr
    return value


@pytest.mark.parametrize('positives', [1, 3, 17, 60])
@pytest.mark.parametrize('decimals', [1, 6])
def test_nearest_recall_follows_its_definition(positives, decimals):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        labels = np.zeros(300, int)
        labels[:positives] = 1
        scores = np.round(rng.normal(size=300) + labels, decimals)
        scores = scores.astype(np.float32)
        curve = detection(scores, labels)
        expected = fpr_at_nearest_recall(scores, labels)
        assert curve.fpr_at_nearest_tpr() == pytest.approx(expected)


def test_a_perfect_score_separates():
    curve = detection([.1, .2, .8, .9], [0, 0, 1, 1])
    assert curve.auroc() == curve.average_precision() == 1
    assert curve.fpr_at_tpr() == curve.fpr_at_nearest_tpr() == 0


def test_thresholds_do_what_they_promise():
    rng = np.random.default_rng(0)
    labels = (rng.random(4000) < .2).astype(int)
    scores = (rng.normal(size=4000) + labels).astype(np.float32)
    for max_bins in (10**6, 200):
        curve = detection(scores, labels, max_bins=max_bins)
        alarm = scores >= curve.threshold(tpr=.95)
        assert .95 <= alarm[labels == 1].mean() < .97
        alarm = scores >= curve.threshold(fpr=.05)
        assert .04 < alarm[labels == 0].mean() <= .05
    assert not (scores >= curve.threshold(fpr=0))[labels == 0].any()


def test_points_lie_on_the_curve():
    rng = np.random.default_rng(0)
    labels = (rng.random(5000) < .2).astype(int)
    scores = rng.normal(size=5000) + labels
    points = detection(scores, labels).points(most=400)
    assert len(points['tpr']) <= 400
    area = sk.auc(np.r_[0, points['fpr']], np.r_[0, points['tpr']])
    assert area == pytest.approx(sk.roc_auc_score(labels, scores), abs=1e-3)


def test_aurc_without_ties_is_the_mean_of_all_risks():
    rng = np.random.default_rng(0)
    wrong = (rng.random(999) < .3).astype(int)
    scores = rng.permutation(999).astype(np.float32)
    errors = wrong[scores.argsort()].cumsum()
    risks = errors / np.arange(1, 1000)
    curve = RiskCoverage(histogram(scores, wrong))
    assert curve.aurc() == pytest.approx(risks.mean())
    for coverage in (.001, .5, .8, 1):
        pixels = int(np.ceil(coverage * 999))
        assert curve.risk(coverage) == pytest.approx(risks[pixels - 1])


def test_aurc_of_an_oracle_has_a_closed_form():
    # All n right pixels come first, then risk is j / (n + j).
    right, wrong = 700, 300
    labels = np.r_[np.zeros(right), np.ones(wrong)].astype(int)
    curve = RiskCoverage(histogram(labels.astype(np.float32), labels))
    j = np.arange(1, wrong + 1)
    assert curve.aurc() == pytest.approx((j / (right + j)).sum() / 1000)
    assert curve.risk(.7) == 0


def test_aurc_of_a_constant_score_is_the_error_rate():
    labels = (np.arange(1000) < 130).astype(int)
    curve = RiskCoverage(histogram(np.ones(1000), labels))
    assert curve.aurc() == pytest.approx(.13)
    assert curve.risk(.8) == pytest.approx(.13)


def test_coarse_bins_hardly_change_aurc():
    rng = np.random.default_rng(0)
    wrong = (rng.random(200_000) < .1).astype(int)
    scores = (rng.normal(size=200_000) + wrong).astype(np.float32)
    exact = RiskCoverage(histogram(scores, wrong, max_bins=10**6)).aurc()
    coarse = RiskCoverage(histogram(scores, wrong, max_bins=2**12)).aurc()
    assert abs(exact - coarse) < 1e-5


def test_equal_mass_bins_are_slices_of_the_sorted_pixels():
    rng = np.random.default_rng(0)
    confidence = rng.random(1500).astype(np.float32)
    right = rng.random(1500) < confidence
    bins = equal_mass_bins(histogram(confidence, ~right), 15)
    order = confidence.argsort()
    assert bins[0] == pytest.approx(100)
    assert bins[1] == pytest.approx(
        confidence[order].reshape(15, 100).sum(1, dtype=float))
    assert bins[2] == pytest.approx(right[order].reshape(15, 100).sum(1))


def test_aurc_does_not_depend_on_the_number_of_pixels():
    values = []
    for pixels in (10**9, 2 * 10**10):
        counts = histogram([0., 1.], [0, 1])
        counts.counts = torch.tensor([[891, 9], [50, 50]]) * (pixels // 1000)
        values.append(RiskCoverage(counts).aurc())
    assert values[0] == pytest.approx(values[1], abs=1e-6)


def test_the_error_of_fpr_covers_two_frequent_scores_in_one_bin():
    # Few positives are there, so AUROC is nearly exact.
    positive = np.linspace(.6, 1, 1000)
    positive[:52] = np.repeat([.2500001, .25], 26)
    negative = np.concatenate([np.linspace(.01, .2, 7000),
                               np.repeat([.25, .2500001], 1500)])
    scores = np.concatenate([positive, negative]).astype(np.float32)
    labels = np.repeat([1, 0], [1000, 10000])
    coarse = detection(scores, labels, max_bins=2**11)
    exact = detection(scores, labels).fpr_at_tpr()
    error = abs(coarse.fpr_at_tpr() - exact)
    assert .1 < error <= coarse.fpr_error() < .31
    assert coarse.auroc_error() < .01
    assert detection(scores, labels).fpr_error() == 0


def adversarial(seed):
    """Scores with ties, plateaus and tails, in far too few bins."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 400))
    labels = (rng.random(n) < rng.choice([.01, .1, .5, .9])).astype(int)
    labels[:2] = 0, 1
    side = 1e-6 * rng.choice([-1, 1])
    scores = [
        rng.random(n),
        rng.random(n).round(1) + rng.integers(0, 3, n) * 1e-6,
        np.where(rng.random(n) < .5, .7 + labels * side, rng.random(n)),
        rng.normal(size=n)**5 + labels][seed % 4].astype(np.float32)
    return scores, labels, int(rng.choice([1, 2, 3, 8, 30, 100]))


def test_errors_cover_scikit_learn_on_adversarial_data():
    shares = {}
    for seed in range(400):
        scores, labels, max_bins = adversarial(seed)
        # scikit-learn takes scores nearer than 1e-12 for ties.
        ranks = np.unique(scores, return_inverse=True)[1]
        curve = detection(scores, labels, max_bins=max_bins)
        fpr, tpr, _ = sk.roc_curve(labels, ranks, drop_intermediate=False)
        for name, value, exact, error in (
                ('AUROC', curve.auroc(), sk.roc_auc_score(labels, ranks),
                 curve.auroc_error()),
                ('AUPR', curve.average_precision(),
                 sk.average_precision_score(labels, ranks),
                 curve.average_precision_error()),
                ('FPR95', curve.fpr_at_tpr(), fpr[np.argmax(tpr >= .95)],
                 curve.fpr_error()),
                ('nearest', curve.fpr_at_nearest_tpr(),
                 fpr_at_nearest_recall(scores, labels),
                 curve.nearest_fpr_error())):
            off = abs(value - exact)
            assert off <= error + 1e-9, (name, seed)
            shares.setdefault(name, []).append(off / max(error, 1e-9))
    # The bounds are tight.
    assert all(max(share) > .9 for share in shares.values()), shares


def test_equally_near_rates_are_those_of_the_authors_code():
    # 28 and 29 of 30 are equally far from 95 %: rounding decides.
    labels = np.repeat([1, 0, 1, 0, 1], [28, 10, 1, 20, 1])
    scores = np.arange(60, 0, -1).astype(np.float32)
    curve = detection(scores, labels)
    assert curve.fpr_at_nearest_tpr() == fpr_at_nearest_recall(scores, labels)


def test_ordinary_scores_are_within_the_promise():
    rng = np.random.default_rng(0)
    labels = (rng.random(600_000) < .1).astype(int)
    scores = (rng.normal(size=600_000) + labels).astype(np.float32)
    curve = detection(scores, labels)
    assert 0 < curve.average_precision_error() < 1e-4
    exact = detection(scores, labels, max_bins=10**6)
    assert exact.average_precision_error() == 0


def test_the_error_of_auroc_covers_two_frequent_scores_in_one_bin():
    rng = np.random.default_rng(0)
    labels = (rng.random(50_000) < .1).astype(int)
    frequent = np.where(labels == 1, .2500001, .25)
    scores = np.where(rng.random(50_000) < .3, frequent, rng.random(50_000))
    scores = scores.astype(np.float32)
    exact = sk.roc_auc_score(labels, scores)
    coarse = detection(scores, labels, max_bins=2**12)
    error = abs(coarse.auroc() - exact)
    assert .01 < error <= coarse.auroc_error() < .06
    assert detection(scores, labels, max_bins=10**6).auroc_error() == 0
