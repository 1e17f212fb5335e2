#!/usr/bin/env bash
# Installs Debian's postgresql, which tests/test_gradebook_postgres.py needs, where it is missing.
set -euo pipefail

die() { printf 'postgres: %s\n' "$*" >&2; exit 1; }

# Debian keeps initdb and postgres of every version in a folder of its own.
PATH=$PATH:$(printf '%s:' /usr/lib/postgresql/*/bin)
if command -v initdb >/dev/null && command -v postgres >/dev/null; then exit 0; fi

command -v apt-get >/dev/null || die "there is no apt-get here; install PostgreSQL 13 or later yourself."
[ "$(id -u)" -eq 0 ] || die "run 'apt-get install postgresql' as root and try again."
printf 'postgres: installing postgresql with apt-get\n' >&2
apt-get update -qq >&2 &&
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql >/dev/null ||
    die "apt-get could not install postgresql; what it printed above says why."

# The tests start a server of their own; the one that the package began serves nobody.
if [ -d /run/systemd/system ]; then
    systemctl disable --now --quiet postgresql || true
else
    service postgresql stop >/dev/null || true
fi
