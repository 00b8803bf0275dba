"""Join the processes of a launcher, on machines without a GPU too."""
import atexit
import gc
import os
import subprocess

import torch
from mmengine.config import Config
from mmengine.device import get_device
from mmengine.dist import init_dist, is_distributed


def join_processes(cfg: Config) -> None:
    """Join the processes that the config's ``launcher`` has started."""
    join_on_cpu(cfg)
    if cfg.get('launcher', 'none') != 'none' and not is_distributed():
        init_dist(cfg.launcher, **cfg.env_cfg.dist_cfg)


def join_on_cpu(cfg: Config) -> None:
    """Join the processes if there is no GPU; otherwise the Runner does it.

    mmengine's own function selects a GPU for every process. This one uses
    gloo, and DDP without a device.
    """
    launcher = cfg.get('launcher', 'none')
    if get_device() != 'cpu' or launcher not in ('pytorch', 'slurm'):
        return
    if launcher == 'slurm':
        _name_slurm_process()
    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group('gloo')
        # Otherwise gloo's threads sometimes abort the process when it exits.
        atexit.register(_leave)
    cfg.model_wrapper_cfg = dict(
        type='MMDistributedDataParallel', device_ids=None)


def leave_processes() -> None:
    """Leave the process group once all processes have finished.

    Models are deleted first, because deleting DDP needs the group's threads.
    """
    gc.collect()
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.barrier()
        _leave()


def _leave() -> None:
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def _name_slurm_process() -> None:
    """Set the environment variables that torch reads from those of Slurm."""
    if 'SLURM_PROCID' not in os.environ:
        raise ValueError("launcher='slurm', but SLURM_PROCID is not set; "
                         'start the tool with srun.')
    os.environ.update(
        RANK=os.environ['SLURM_PROCID'],
        WORLD_SIZE=os.environ['SLURM_NTASKS'],
        LOCAL_RANK=os.environ.get('SLURM_LOCALID', '0'))
    os.environ.setdefault('MASTER_PORT', '29500')
    if 'MASTER_ADDR' not in os.environ:
        hosts = subprocess.check_output(
            ['scontrol', 'show', 'hostnames', os.environ['SLURM_NODELIST']],
            text=True)
        os.environ['MASTER_ADDR'] = hosts.split()[0]
