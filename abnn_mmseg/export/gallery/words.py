"""Titles and explanations of scores on the page."""
from abnn_mmseg.uncertainty import score_of

# Title and meaning of each score.
WORDS = dict(
    msp=('Doubt', '1 - probability of the most likely class'),
    entropy=('Entropy', 'how undecided the prediction is'),
    expected_entropy=('Expected entropy',
                      'how undecided each network is for itself'),
    mutual_information=('Mutual information',
                        'how much the networks disagree'),
    variance=('Variance', 'how far the networks\' probabilities spread'),
    max_logit=('Max logit', 'how weak the strongest class is'),
    energy=('Energy', 'how weak all classes are together'))


def title_of(name: str) -> str:
    """The title of a map: ``'base: Doubt'`` for ``'base: msp'``."""
    score = score_of(name)
    title = WORDS.get(score, (score, ''))[0]
    return name[:len(name) - len(score)] + title if score else name


def meaning_of(name: str) -> str:
    """The meaning of a map, and of its bright pixels."""
    meaning = WORDS.get(score_of(name), ('', ''))[1]
    return f'{meaning}; ' * bool(meaning) + 'brighter is less certain'
