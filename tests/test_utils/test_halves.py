"""A small file of weights is the network within half precision."""
import torch
from toys import build, toy_config

from abnn_mmseg.members.files import load_base
from abnn_mmseg.utils.halves import save_half


def test_a_half_file_loads_and_keeps_the_norms(tmp_path):
    model = build(toy_config(auxiliary=False))
    path, half = tmp_path / 'whole.pth', tmp_path / 'half.pth'
    torch.save(dict(state_dict=model.state_dict(), optimizer={}), path)
    save_half(path, half)
    other = build(toy_config(auxiliary=False))
    load_base(other, str(half))
    for name, value in model.state_dict().items():
        loaded = other.state_dict()[name]
        assert loaded.dtype == value.dtype
        if value.ndim > 1:
            torch.testing.assert_close(loaded, value, rtol=1e-3, atol=1e-4)
        else:
            assert torch.equal(loaded, value)
