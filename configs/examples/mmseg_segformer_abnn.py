# Three lines: maps of the trained SegFormer's draws, nothing fine-tuned.
_base_ = 'mmseg::segformer/segformer_mit-b0_8xb1-160k_cityscapes-1024x1024.py'
custom_imports = dict(imports=['abnn_mmseg'], allow_failed_imports=False)
model = dict(type='BayesianEncoderDecoder', posterior=dict(type='BNLPosterior', alpha=0.1))  # noqa: E501
