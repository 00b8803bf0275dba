#!/usr/bin/env bash
# Test on several processes: tools/dist_test.sh CONFIG PROCESSES CHECKPOINT... [ARGS...]
set -euo pipefail
config=$1
processes=$2
torchrun --nproc_per_node="$processes" --nnodes="${NNODES:-1}" \
    --node_rank="${NODE_RANK:-0}" --master_addr="${MASTER_ADDR:-127.0.0.1}" \
    --master_port="${PORT:-29500}" "$(dirname "$0")/test.py" "$config" \
    "${@:3}" --launcher pytorch
