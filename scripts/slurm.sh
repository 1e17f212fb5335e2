#!/usr/bin/env bash
# Installs the two of Debian's slurm packages that tests/test_slurm.py needs, where they are missing.
set -euo pipefail

readonly PACKAGES=(slurm-client slurmctld)

die() { printf 'slurm: %s\n' "$*" >&2; exit 1; }

# slurmctld lies in /usr/sbin, which is not on everybody's path.
PATH=$PATH:/usr/sbin:/sbin
if command -v sbatch >/dev/null && command -v scontrol >/dev/null && command -v slurmctld >/dev/null; then exit 0; fi

command -v apt-get >/dev/null || die "there is no apt-get here; install Slurm 22.05 or later (${PACKAGES[*]}) yourself."
[ "$(id -u)" -eq 0 ] || die "run 'apt-get install ${PACKAGES[*]}' as root and try again."
munge_was_there=$(command -v munged || true)
printf 'slurm: installing %s with apt-get\n' "${PACKAGES[*]}" >&2
apt-get update -qq >&2 &&
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${PACKAGES[@]}" >/dev/null ||
    die "apt-get could not install ${PACKAGES[*]}; what it printed above says why."

# The tests start a controller of their own; services that the packages began serve nobody.
if [ -d /run/systemd/system ]; then
    systemctl disable --now --quiet slurmctld || true
    [ -n "$munge_was_there" ] || systemctl disable --now --quiet munge || true
fi
