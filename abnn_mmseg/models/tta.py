"""Test-time augmentation around a segmentor, uncertainty included."""

from mmseg.models.segmentors import SegTTAModel
from mmseg.registry import MODELS
from mmseg.structures import SegDataSample

from abnn_mmseg.models.answering import Answer
from abnn_mmseg.models.checks import check_finite
from abnn_mmseg.models.segmentor import BayesianSegmentor


# It replaces mmseg's class of that name, which would return only the maps of
# the last augmentation.
@MODELS.register_module('SegTTAModel', force=True)
class BayesianTTAModel(SegTTAModel):
    """``SegTTAModel`` that pools the networks of all augmentations.

    K networks on A augmented images are K * A networks on one image, so
    prediction and maps are those of a posterior with K * A networks. For
    segmentors without uncertainty it does what mmseg does.
    """

    def test_step(self, data: dict) -> list[SegDataSample]:
        """Predict from all augmentations of the images at once."""
        model = self.module
        if not isinstance(model, BayesianSegmentor):
            return super().test_step(data)
        augmented = [
            model.data_preprocessor(dict(zip(data, batch)), False)
            for batch in zip(*data.values())
        ]
        samples = augmented[0]['data_samples']
        answers = [
            model.answer(batch['inputs'], [
                sample.metainfo for sample in batch['data_samples']])
            for batch in augmented
        ]
        model.conclude(_pool(answers), samples)
        check_finite([batch['inputs'] for batch in augmented], samples)
        return samples


def _pool(answers: list[Answer]) -> Answer:
    """One answer over all augmentations of the images."""
    first, *others = answers
    for other in others:
        for pool, more in zip(first.statistics, other.statistics):
            pool.merge(more)
        for name, predicted in first.predictions.items():
            # The posterior mean, and all of a plain model, are the draws.
            if predicted is not first.statistics:
                for pool, more in zip(predicted, other.predictions[name]):
                    pool.merge(more)
    return Answer(first.statistics, first.predictions, {})
