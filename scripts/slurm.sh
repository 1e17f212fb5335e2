#!/usr/bin/env bash
# Installs Debian's slurm packages that `make slurm` tests with, where they are missing.
set -euo pipefail

readonly PACKAGES=(slurm-client slurmctld slurmd munge)
readonly PROGRAMS=(sbatch scontrol scancel squeue slurmctld slurmd munged mungekey)

die() { printf 'slurm: %s\n' "$*" >&2; exit 1; }

# Daemons lie in /usr/sbin, which is not on everybody's path.
PATH=$PATH:/usr/sbin:/sbin
missing=
for program in "${PROGRAMS[@]}"; do command -v "$program" >/dev/null || missing=$program; done
[ -n "$missing" ] || exit 0

command -v apt-get >/dev/null || die "there is no apt-get here; install Slurm 22.05 or later (${PACKAGES[*]}) yourself."
[ "$(id -u)" -eq 0 ] || die "run 'apt-get install ${PACKAGES[*]}' as root and try again."
munge_was_there=$(command -v munged || true)
printf 'slurm: installing %s with apt-get\n' "${PACKAGES[*]}" >&2
apt-get update -qq >&2 &&
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${PACKAGES[@]}" >/dev/null ||
    die "apt-get could not install ${PACKAGES[*]}; what it printed above says why."

# The tests start daemons of their own; services that the packages began serve nobody.
if [ -d /run/systemd/system ]; then
    systemctl disable --now --quiet slurmctld slurmd || true
    [ -n "$munge_was_there" ] || systemctl disable --now --quiet munge || true
fi
