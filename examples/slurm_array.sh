#!/bin/bash
# An export by 16 independent jobs: sbatch examples/slurm_array.sh CONFIG
# CHECKPOINT INPUT OUT [options]. A job that fails is submitted again as it was.
#SBATCH --job-name=abnn-maps
#SBATCH --array=1-16
#SBATCH --cpus-per-task=4
shard="${SLURM_ARRAY_TASK_ID:?start it with sbatch}/${SLURM_ARRAY_TASK_COUNT:?}"
exec "${PYTHON:-python}" tools/export_maps.py "$@" --shard "$shard"
