"""Hooks that a config names by type."""
from abnn_mmseg.engine.hooks.audit_hook import AuditHook
from abnn_mmseg.engine.hooks.cost_hook import CostHook
from abnn_mmseg.engine.hooks.map_hook import MapVisualizationHook
from abnn_mmseg.engine.hooks.member_hook import MemberHook
from abnn_mmseg.engine.hooks.progress_hook import ProgressHook
from abnn_mmseg.engine.hooks.stability_hook import StabilityHook

__all__ = [
    'AuditHook', 'CostHook', 'MapVisualizationHook', 'MemberHook',
    'ProgressHook', 'StabilityHook'
]
