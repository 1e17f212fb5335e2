#!/usr/bin/env bash
# Trains on this node alone, with NPROC processes (2 unless it is set).
#   NPROC=4 launch/torchrun_single.sh --training-data data --epochs 3
set -euo pipefail
cd "$(dirname "$0")/.."

# One thread for each process, or they take the cores from one another; torchrun would say so in a warning.
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
# TODO: start ddp_train.py with torchrun on one node, with ${NPROC:-2} processes, and hand it "$@"
echo "torchrun_single.sh is not written yet" >&2; exit 1
