"""Training of members and the hooks around it."""
from abnn_mmseg.engine.hooks import AuditHook, MemberHook
from abnn_mmseg.engine.loops import DistillTrainLoop, MemberTrainLoop
from abnn_mmseg.engine.pictures import draw_maps
from abnn_mmseg.engine.trainer import MemberTrainer, train
from abnn_mmseg.members.files import (
    load_base,
    load_members,
    read_members,
    save_members,
)

__all__ = [
    'AuditHook', 'DistillTrainLoop', 'MemberHook', 'MemberTrainLoop',
    'MemberTrainer', 'draw_maps', 'load_base', 'load_members',
    'read_members', 'save_members', 'train'
]
