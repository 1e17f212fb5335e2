#!/usr/bin/env bash
# Gradescope runs this once, as root, when it builds the image of the autograder. Choose Ubuntu 22.04 there: it is
# the release that has Python 3.11.
#
#   setup.sh [ROOT]     ROOT is /autograder where Gradescope runs it
set -euo pipefail
cd "${1:-/autograder}/source"

apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    python3.11 python3.11-venv python3-pip bubblewrap libseccomp2 util-linux ca-certificates
PYTHON=python3.11 scripts/setup.sh

# Said in the log of the build. Without a sandbox run_autograder gives no points and says so.
.venv/bin/lockstep doctor || true
