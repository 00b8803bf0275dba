#!/usr/bin/env bash
# Train on several processes: tools/dist_train.sh CONFIG PROCESSES [ARGS...]
set -euo pipefail
config=$1
processes=$2
torchrun --nproc_per_node="$processes" --nnodes="${NNODES:-1}" \
    --node_rank="${NODE_RANK:-0}" --master_addr="${MASTER_ADDR:-127.0.0.1}" \
    --master_port="${PORT:-29500}" "$(dirname "$0")/train.py" "$config" \
    --launcher pytorch "${@:3}"
