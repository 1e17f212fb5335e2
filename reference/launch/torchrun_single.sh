#!/usr/bin/env bash
# Trains on this node alone, with NPROC processes (2 unless it is set).
#   NPROC=4 launch/torchrun_single.sh --training-data data --epochs 3
set -euo pipefail
cd "$(dirname "$0")/.."

# One thread for each process, or they take the cores from one another; torchrun would say so in a warning.
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
# >>> solution: start ddp_train.py with torchrun on one node, with ${NPROC:-2} processes, and hand it "$@"
# --standalone is a meeting place of its own on a free port: two such runs on one machine never mix.
torchrun --standalone --nproc-per-node "${NPROC:-2}" ddp_train.py "$@"
# <<<
