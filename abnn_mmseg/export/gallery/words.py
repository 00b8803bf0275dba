"""What the page calls a score, and which way it points."""
from abnn_mmseg.uncertainty import score_of

# Title, what it measures.
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
    """A map's name in words: ``'base: msp'`` is ``'base: Doubt'``."""
    score = score_of(name)
    title = WORDS.get(score, (score, ''))[0]
    return name[:len(name) - len(score)] + title if score else name


def meaning_of(name: str) -> str:
    """What a map measures, and which way it points."""
    meaning = WORDS.get(score_of(name), ('', ''))[1]
    return f'{meaning}; ' * bool(meaning) + 'brighter is less certain'
