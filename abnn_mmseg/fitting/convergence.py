r"""Whether Markov chains agree: split R-hat and effective sample size.

Both are of many quantities at once, ``[chains, draws, ...]``, and follow
Vehtari et al., "Rank-normalization, folding, and localization: an improved
R-hat" (2021), without the ranks.
"""
import numpy as np


def split_chains(values: np.ndarray) -> np.ndarray:
    """Split chains in halves, so that a drift shows as a difference."""
    half = values.shape[1] // 2
    if half < 2:
        raise ValueError(
            f'chains of {values.shape[1]} samples are too short to compare '
            'their halves; draw at least 4 of each.')
    return np.concatenate([values[:, :half], values[:, -half:]])


def split_rhat(values: np.ndarray) -> np.ndarray:
    r"""Split R-hat of each quantity; 1 means that the chains agree.

        sqrt(((n - 1) / n * W + B / n) / W)

    with the mean variance W within half chains of n samples, and B / n the
    variance of their means. It is 1 for a quantity that does not vary.

    Args:
        values (ndarray): ``[chains, draws, ...]``.
    """
    halves = split_chains(np.asarray(values, np.float64))
    count = halves.shape[1]
    within = halves.var(1, ddof=1).mean(0)
    between = halves.mean(1).var(0, ddof=1)
    total = (count - 1) / count * within + between
    with np.errstate(divide='ignore', invalid='ignore'):
        found = np.sqrt(total / within)
    return np.where(total == 0, 1., found)


def effective_size(values: np.ndarray) -> np.ndarray:
    """Effective sample size of the mean of each quantity.

    It is the number of samples divided by ``1 + 2 * sum`` of the
    autocorrelations. The sum is over pairs of lags as long as the pairs are
    positive and decrease (Geyer, 1992).

    Args:
        values (ndarray): ``[chains, draws, ...]``.
    """
    halves = split_chains(np.asarray(values, np.float64))
    shape = halves.shape[2:]
    halves = halves.reshape(*halves.shape[:2], -1)
    chains, count = halves.shape[:2]
    covariance = autocovariance(halves).mean(0)
    within = covariance[0] * count / (count - 1)
    total = covariance[0] + halves.mean(1).var(0, ddof=1)
    with np.errstate(divide='ignore', invalid='ignore'):
        correlation = 1 - (within - covariance) / total
    correlation[0] = 1
    pairs = correlation[:count // 2 * 2].reshape(-1, 2, halves.shape[2]).sum(1)
    positive = np.cumprod(pairs > 0, 0).astype(bool)
    pairs = np.where(positive, np.minimum.accumulate(pairs, 0), 0)
    time = -1 + 2 * pairs.sum(0)
    size = chains * count
    # Antithetic chains may exceed independent draws, up to this limit.
    time = np.maximum(time, 1 / np.log10(size))
    return np.where(total == 0, size, size / time).reshape(shape)


def autocovariance(values: np.ndarray) -> np.ndarray:
    """Autocovariance of each chain and quantity, at all lags, by FFT."""
    count = values.shape[1]
    centred = values - values.mean(1, keepdims=True)
    spectrum = np.fft.rfft(centred, 2 * count, axis=1)
    power = np.fft.irfft(np.abs(spectrum)**2, 2 * count, axis=1)
    return power[:, :count] / count
