"""Test-time augmentation around a segmentor, uncertainty included."""

from mmseg.models.segmentors import SegTTAModel
from mmseg.registry import MODELS
from mmseg.structures import SegDataSample

from abnn_mmseg.models.segmentor import BayesianSegmentor


# In the place of mmseg's, which configs name: that one would return the maps
# of the last augmentation.
@MODELS.register_module('SegTTAModel', force=True)
class BayesianTTAModel(SegTTAModel):
    """``SegTTAModel`` that pools the networks of all augmentations.

    K networks on A augmented images are K * A networks on the image, so
    prediction and maps are those of one posterior with that many. Segmentors
    without uncertainty are merged as mmseg does.
    """

    def test_step(self, data: dict) -> list[SegDataSample]:
        model = self.module
        if not isinstance(model, BayesianSegmentor):
            return super().test_step(data)
        if model.resolution != 'full':
            raise ValueError(
                f'resolution={model.resolution!r} cannot be merged over '
                "augmentations; write resolution='full' in the segmentor.")
        views = [
            model.data_preprocessor(dict(zip(data, view)), False)
            for view in zip(*data.values())
        ]
        samples = views[0]['data_samples']
        draws = self._pool(model.draw_statistics, views)
        centres = draws
        if model.prediction == 'centre':
            centres = self._pool(model.centre_statistics, views)
        model.conclude(views[0]['inputs'], samples, draws, centres)
        return samples

    @staticmethod
    def _pool(statistics_of, views: list[dict]) -> list:
        """The statistics of every image over all its views."""
        pooled: list = []
        for view in views:
            metas = [sample.metainfo for sample in view['data_samples']]
            statistics = statistics_of(view['inputs'], metas)
            for pool, other in zip(pooled, statistics):
                pool.merge(other)
            pooled = pooled or statistics
        return pooled
