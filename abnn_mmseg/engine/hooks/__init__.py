"""Hooks that a config names by type."""
from .audit_hook import AuditHook
from .cost_hook import CostHook
from .map_hook import MapVisualizationHook
from .member_hook import MemberHook
from .progress_hook import ProgressHook
from .stability_hook import StabilityHook

__all__ = [
    'AuditHook', 'CostHook', 'MapVisualizationHook', 'MemberHook',
    'ProgressHook', 'StabilityHook'
]
