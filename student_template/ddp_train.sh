#!/usr/bin/env bash
# Trains on one node: NPROC processes (2 unless it is set), one for each GPU where there are GPUs.
#   NPROC=4 ./ddp_train.sh --training-data data --epochs 3
set -euo pipefail
cd "$(dirname "$0")"

# One thread for each process, or they take the cores from one another; torchrun would say so in a warning.
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
# TODO: start ddp_train.py with torchrun: one node, ${NPROC:-2} processes, a checkpoint, reports/ddp.json, "$@"
echo "ddp_train.sh is not written yet" >&2; exit 1
