"""Random predictions with ground truth, as the segmentor gives them."""
import torch
from mmengine.structures import PixelData
from mmseg.structures import SegDataSample


def build_sample(seed=0, size=(24, 32), num_classes=4, ood=0.1, void=0.1):
    """A prediction that is right more often than not."""
    generator = torch.Generator().manual_seed(seed)

    def rand(*shape):
        return torch.rand(*shape, generator=generator)

    labels = (rand(1, *size) * num_classes).long()
    anomaly = (rand(1, *size) < ood).to(torch.uint8)
    anomaly[rand(1, *size) < void] = 255
    logits = 2 * torch.randn(num_classes, *size, generator=generator)
    logits.scatter_add_(0, labels, 5 * rand(1, *size))
    logits[:, anomaly[0] == 1] *= 0.5
    prob = logits.softmax(0)
    labels[anomaly > 0] = 255
    sample = SegDataSample(metainfo=dict(img_path=f'images/{seed}.png'))
    sample.seg_logits = PixelData(data=prob.log())
    sample.pred_sem_seg = PixelData(data=prob.argmax(0, keepdim=True))
    sample.gt_sem_seg = PixelData(data=labels)
    sample.gt_anomaly = PixelData(data=anomaly)
    sample.uncertainty = PixelData(
        msp=1 - prob.amax(0, keepdim=True),
        entropy=torch.special.entr(prob).sum(0, keepdim=True),
        energy=-logits.logsumexp(0, keepdim=True))
    return sample
