#!/usr/bin/env bash
# Trains on two nodes, with NPROC processes (2 unless it is set) on each. To be run once on every node:
#   NODE_RANK=0 MASTER_ADDR=node0 MASTER_PORT=29500 launch/torchrun_multi.sh --training-data data    # on node0
#   NODE_RANK=1 MASTER_ADDR=node0 MASTER_PORT=29500 launch/torchrun_multi.sh --training-data data    # on node1
# NODE_RANK is the number of the node; MASTER_ADDR and MASTER_PORT are the same on both.
set -euo pipefail
cd "$(dirname "$0")/.."

export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
# TODO: start ddp_train.py with torchrun as one of two nodes that meet at MASTER_ADDR:MASTER_PORT
echo "torchrun_multi.sh is not written yet" >&2; exit 1
