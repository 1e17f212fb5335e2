#!/usr/bin/env bash
# Trains on two nodes, with NPROC processes (2 unless it is set) on each. To be run once on every node:
#   NODE_RANK=0 MASTER_ADDR=node0 MASTER_PORT=29500 launch/torchrun_multi.sh --training-data data    # on node0
#   NODE_RANK=1 MASTER_ADDR=node0 MASTER_PORT=29500 launch/torchrun_multi.sh --training-data data    # on node1
# NODE_RANK is the number of the node; MASTER_ADDR and MASTER_PORT are the same on both.
set -euo pipefail
cd "$(dirname "$0")/.."

export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
# >>> solution: start ddp_train.py with torchrun as one of two nodes that meet at MASTER_ADDR:MASTER_PORT
# The nodes find one another by the endpoint and tell their job from others' by its id. With c10d they also
# agree on who is which; --node-rank only says so to torchrun's static rendezvous.
torchrun --nnodes 2 --nproc-per-node "${NPROC:-2}" --node-rank "$NODE_RANK" \
    --rdzv-backend c10d --rdzv-id "${JOB_ID:-ddp-train}" --rdzv-endpoint "$MASTER_ADDR:$MASTER_PORT" \
    ddp_train.py "$@"
# <<<
