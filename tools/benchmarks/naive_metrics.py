"""The obvious way: collect all pixels, then scikit-learn and numpy."""
import numpy as np

SCORES = ('msp', 'entropy', 'mutual_information')


def collect_anomaly(sample: dict, collected: dict, per_image: dict) -> None:
    labels = sample['gt_anomaly']['data'].numpy().ravel()
    collected['ood'].append(labels[labels < 2])
    for score in SCORES:
        scores = sample['uncertainty'][score].numpy().ravel()
        collected[score].append(scores[labels < 2])
        for protocol, positive in dict(
                per_image=labels == 1, muad=labels > 0).items():
            per_image[protocol, score].append(
                _detection(scores, positive, _nearest))


def anomaly(collected: dict, per_image: dict) -> dict:
    values = {key: np.mean(images, 0) for key, images in per_image.items()}
    labels = np.concatenate(collected.pop('ood'))
    for score in SCORES:
        scores = np.concatenate(collected.pop(score))
        values['pooled', score] = _detection(scores, labels, _first)
    return {
        f'ood/{protocol}/{score}/{name}': 100 * value
        for (protocol, score), three in values.items()
        for name, value in zip(('AUROC', 'AUPR', 'FPR95'), three)
    }


def _first(tpr: np.ndarray) -> int:
    return int(np.argmax(tpr >= 0.95))


def _nearest(tpr: np.ndarray) -> int:
    return tpr.size - 1 - int(np.argmin(np.abs(tpr - 0.95)[::-1]))


def _detection(scores: np.ndarray, labels: np.ndarray, choose) -> tuple:
    from sklearn import metrics
    fpr, tpr, _ = metrics.roc_curve(labels, scores, drop_intermediate=False)
    return (metrics.roc_auc_score(labels, scores),
            metrics.average_precision_score(labels, scores),
            fpr[choose(tpr)])


def collect_calibration(sample: dict, collected: dict) -> None:
    prob = sample['seg_logits']['data'].softmax(0).flatten(1).numpy()
    labels = sample['gt_sem_seg']['data'].numpy().ravel()
    known = labels < 255
    prob, labels = prob[:, known], labels[known]
    true = np.take_along_axis(prob, labels[None], 0)[0]
    collected['nll'].append(-np.log(true))
    collected['brier'].append((prob**2).sum(0) - 2 * true + 1)
    collected['confidence'].append(prob.max(0))
    collected['right'].append(prob.argmax(0) == labels)
    bins = np.ceil(prob * 15).astype(int).clip(1) - 1
    collected['classes'].append([
        np.bincount(b, (labels == c) - p, 15)
        for c, (b, p) in enumerate(zip(bins, prob))
    ])


def calibration(collected: dict) -> dict:
    confidence = np.concatenate(collected['confidence'])
    right = np.concatenate(collected['right'])
    gap = right - confidence.astype(float)
    bins = np.ceil(confidence * 15).astype(int).clip(1) - 1
    sums = np.bincount(bins, gap, 15)
    equal = np.array_split(gap[np.argsort(confidence)], 15)
    classes = np.abs(np.sum(collected['classes'], 0)).sum(1) / gap.size
    count = np.bincount(bins, minlength=15).clip(1)
    return {
        'cal/pooled/ECE': 100 * np.abs(sums).sum() / gap.size,
        'cal/pooled/MCE': 100 * np.max(np.abs(sums) / count),
        'cal/pooled/ECE_adaptive':
        100 * sum(abs(part.sum()) for part in equal) / gap.size,
        'cal/pooled/ECE_classwise': 100 * classes.mean(),
        'cal/pooled/NLL': np.concatenate(collected['nll']).mean(),
        'cal/pooled/Brier': np.concatenate(collected['brier']).mean()
    }


def selective(collected: dict) -> dict:
    order = np.argsort(-np.concatenate(collected['confidence']))
    wrong = ~np.concatenate(collected['right'])[order]
    risk = wrong.cumsum() / np.arange(1, wrong.size + 1)
    values = {'sel/pooled/msp/AURC': 100 * risk.mean()}
    for coverage in (0.8, 0.9, 0.95):
        last = int(np.ceil(coverage * wrong.size)) - 1
        values[f'sel/pooled/msp/risk@{100 * coverage:g}'] = 100 * risk[last]
    return values
