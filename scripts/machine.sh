#!/usr/bin/env bash
# Starts a Debian 13 in an emulated machine and runs tests/machine/inside.sh there: with systemd, control groups of
# version 2, and an AppArmor that knows user namespaces. What the machine writes is thrown away.
#
#   scripts/machine.sh COMMAND     to run another command there, as root
set -euo pipefail
cd "$(dirname "$0")/.."

readonly HERE=$PWD BUILD=$PWD/build/machine
readonly PACKAGES=(qemu-system-x86 debootstrap e2fsprogs)
readonly PROGRAMS=(qemu-system-x86_64 debootstrap mkfs.ext4)
readonly SUITE=trixie
readonly INSIDE=linux-image-amd64,systemd-sysv,dbus,dbus-user-session,libpam-systemd,apparmor,apparmor-profiles,bubblewrap,libseccomp2,procps,sudo,python3

say() { printf 'machine: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

install_programs() {
    local program missing=
    for program in "${PROGRAMS[@]}"; do command -v "$program" >/dev/null || missing=$program; done
    [ -n "$missing" ] || return 0
    command -v apt-get >/dev/null || die "there is no apt-get here; install ${PACKAGES[*]} yourself."
    say "installing ${PACKAGES[*]} with apt-get"
    apt-get update -qq >&2 &&
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${PACKAGES[@]}" >/dev/null ||
        die "apt-get could not install ${PACKAGES[*]}; what it printed above says why."
}

# Python and its packages are not copied: the machine sees the folders of this one, at the same paths.
mount_point() {
    local folder=$2
    mkdir -p "$root$folder"
    printf '%s %s 9p trans=virtio,version=9p2000.L,msize=512000,cache=loose,ro 0 0\n' "$1" "$folder" >>"$root/etc/fstab"
    until [ "$folder" = / ]; do
        chmod 755 "$root$folder"
        folder=$(dirname "$folder")
    done
}

build() {
    root=$BUILD/root
    rm -rf "$BUILD"
    mkdir -p "$BUILD"
    say "making a Debian $SUITE below $BUILD"
    debootstrap --variant=minbase --include="$INSIDE" "$SUITE" "$root" >"$BUILD/debootstrap.log" 2>&1 ||
        die "debootstrap could not make it; $BUILD/debootstrap.log says why."
    printf '/dev/vda / ext4 defaults,noatime 0 1\n' >"$root/etc/fstab"
    printf '127.0.0.1 localhost machine\n' >"$root/etc/hosts"
    printf 'machine\n' >"$root/etc/hostname"
    mount_point checkout "$HERE"
    mount_point packages "$HERE/.venv"
    mount_point python "$prefix"
    mkdir "$root/job"
    printf 'job /job 9p trans=virtio,version=9p2000.L 0 0\n' >>"$root/etc/fstab"
    chroot "$root" useradd --create-home --shell /bin/bash student
    printf 'student ALL=(ALL) NOPASSWD: ALL\n' >"$root/etc/sudoers.d/student"
    cat >"$root/etc/systemd/system/job.service" <<UNIT
[Unit]
Description=what the machine was started for
After=multi-user.target
SuccessAction=poweroff-force
FailureAction=poweroff-force
[Service]
Type=oneshot
Environment=TERM=dumb
WorkingDirectory=$HERE
ExecStart=/bin/bash -l /job/run
ExecStopPost=/bin/sh -c 'echo "\$EXIT_STATUS" >/job/status; sync'
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS0
[Install]
WantedBy=graphical.target
UNIT
    local units=$root/etc/systemd/system unit
    mkdir -p "$units/graphical.target.wants"
    ln -s ../job.service "$units/graphical.target.wants/"
    for unit in serial-getty@ttyS0.service fstrim.timer e2scrub_all.timer apt-daily.timer apt-daily-upgrade.timer; do
        ln -sf /dev/null "$units/$unit"
    done
    cp "$root"/boot/vmlinuz-* "$BUILD/kernel"
    cp "$root"/boot/initrd.img-* "$BUILD/initrd"
    truncate -s 4G "$BUILD/disk"
    mkfs.ext4 -q -F -d "$root" "$BUILD/disk"
    rm -rf "$root"
    fingerprint >"$BUILD/stamp"
}

fingerprint() { printf '%s %s %s\n' "$HERE" "$prefix" "$(sha256sum <scripts/machine.sh)"; }

[ "$(id -u)" -eq 0 ] || die "start it as root: a Debian is made in a folder, with files of root's."
install_programs
prefix=$(.venv/bin/python -c 'import os, sys; print(os.path.realpath(sys.base_prefix))')
[ "$prefix" != /usr ] ||
    die "the machine has no Python $(.venv/bin/python -V | cut -d' ' -f2) of its own; set up with one that is not the system's (PYTHON=PATH make setup)."
[ "$(cat "$BUILD/stamp" 2>/dev/null)" = "$(fingerprint)" ] || build

job=$(mktemp -d)
trap 'rm -rf "$job"' EXIT
printf '%s\n' "${*:-exec bash tests/machine/inside.sh}" >"$job/run"
# A copy: the machine reads files once, and whoever works on them meanwhile would change what it has half read.
checkout=$job/checkout
mkdir -p "$checkout/.venv"
git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents --target-directory "$checkout"
share() { printf 'local,id=%s,path=%s,mount_tag=%s,security_model=none%s' "$1" "$2" "$1" "$3"; }
# No AVX: the emulation of some of its instructions is wrong, and NumPy crashes in them.
say "starting it; this machine emulates every instruction of it"
qemu-system-x86_64 -accel tcg,thread=multi -cpu Nehalem -smp 2 -m 8G -nodefaults -no-user-config -display none \
    -serial stdio -no-reboot -device virtio-rng-pci \
    -kernel "$BUILD/kernel" -initrd "$BUILD/initrd" \
    -append "root=/dev/vda rw console=ttyS0 quiet loglevel=1 systemd.show_status=false" \
    -drive "file=$BUILD/disk,if=virtio,format=raw,snapshot=on" \
    -virtfs "$(share checkout "$checkout" ,readonly=on)" -virtfs "$(share packages "$HERE/.venv" ,readonly=on)" \
    -virtfs "$(share python "$prefix" ,readonly=on)" -virtfs "$(share job "$job" '')" </dev/null
[ -f "$job/status" ] || die "the machine ended before its job did."
[ "$(cat "$job/status")" = 0 ] || die "the job ended with status $(cat "$job/status")."
