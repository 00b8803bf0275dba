import pytest
from mmengine.evaluator import Evaluator
from random_samples import build_sample


@pytest.fixture
def make_sample():
    return build_sample


@pytest.fixture
def evaluate():
    """Run a metric over samples by a real evaluator."""

    def run(metric, samples):
        evaluator = Evaluator(metric)
        for sample in samples:
            evaluator.process([sample])
        return evaluator.evaluate(len(samples))

    return run
