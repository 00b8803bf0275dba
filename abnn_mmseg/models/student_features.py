"""What a student reads: features and output of a pass of a segmentor."""
from typing import Any, Callable

from torch import Tensor, nn

from abnn_mmseg.compat import tree_leaves
from abnn_mmseg.models.passes import handling, let_handle


def watch(model: Any, forward: Callable[[Tensor], Tensor],
          images: Tensor) -> tuple[list[Tensor], Tensor]:
    """Run a pass of a segmentor; return the features for a student.

    They are the outputs of the backbone and the input of the last classifier.

    Args:
        model (BayesianSegmentor): With a backbone.
        forward (Callable): The pass, from images to outputs.
        images (Tensor): ``[B, C, H, W]``.

    Returns:
        tuple: The features ``[B, channels, h, w]``, and the outputs.
    """
    seen: dict[str, list[Tensor]] = {}
    backbone, classifier = _watched(model)

    def note_backbone(own, *args, **kwargs):
        """Keep the feature maps of the backbone."""
        given = own(*args, **kwargs)
        seen['backbone'] = _maps(given)
        return given

    def note_classifier(own, features, *args, **kwargs):
        """Keep the input of the classifier."""
        seen['classifier'] = _maps(features)
        return own(features, *args, **kwargs)

    handlers: dict = {backbone: note_backbone}
    if classifier is not None:
        handlers[classifier] = note_classifier
    let_handle(handlers)
    with handling(handlers):
        outputs = forward(images)
    features = seen.get('backbone', []) + seen.get('classifier', [])
    if not features:
        raise ValueError(
            f'the backbone {type(backbone).__name__} gives no feature maps '
            '[B, channels, h, w] that a student could read; distil a model '
            'with another backbone.')
    return features, outputs


def _watched(model: Any) -> tuple:
    """The backbone, and the last head's classifier if it has one."""
    backbone = getattr(model, 'backbone', None)
    if backbone is None:
        raise ValueError(
            f'{type(model).__name__} has no backbone, whose features a '
            'student reads; distil an EncoderDecoder.')
    head = model.decode_head
    if isinstance(head, nn.ModuleList):
        head = head[-1]
    return backbone, getattr(head, 'conv_seg', None)


def _maps(values: Any) -> list[Tensor]:
    return [v for v in tree_leaves(values)
            if isinstance(v, Tensor) and v.dim() == 4]
