"""Training of members and the hooks around it."""
from .hooks import AuditHook, MemberHook
from .members import load_base, load_members, read_members, save_members
from .trainer import MemberTrainer, train

__all__ = [
    'AuditHook', 'MemberHook', 'MemberTrainer', 'load_base', 'load_members',
    'read_members', 'save_members', 'train'
]
