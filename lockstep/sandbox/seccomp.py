"""The system calls student code has no use for, as a filter the kernel enforces (libseccomp via ctypes)."""

from __future__ import annotations

import errno
import tempfile

# Calls that reach into other processes, change namespaces or mounts, or hold memory no limit sees.
DENIED = (
    "ptrace process_vm_readv process_vm_writev kcmp process_madvise pidfd_getfd "
    "mount umount2 pivot_root chroot unshare setns fsopen fsmount fsconfig fspick move_mount open_tree "
    "mount_setattr bpf perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register "
    "keyctl add_key request_key kexec_load kexec_file_load init_module finit_module delete_module reboot "
    "swapon swapoff acct quotactl clock_settime clock_adjtime settimeofday adjtimex open_by_handle_at "
    "name_to_handle_at personality vmsplice memfd_create memfd_secret shmget shmat shmctl msgget semget "
    "mq_open sethostname setdomainname iopl ioperm fanotify_init lookup_dcookie"
).split()
AF_PACKET, AF_ALG, AF_VSOCK = 17, 38, 40
TIOCSTI, TIOCLINUX = 0x5412, 0x541C


def filter_program() -> bytes:
    """Build the BPF program (about 1 KB). Raises OSError or RuntimeError when libseccomp is not there."""
    import pyseccomp as seccomp

    program = seccomp.SyscallFilter(defaction=seccomp.ALLOW)
    deny = seccomp.ERRNO(errno.EPERM)
    for name in DENIED:
        # A libseccomp older than a call does not know its name, and a kernel that old has no such call.
        try:
            program.add_rule(deny, name)
        except (ValueError, OSError):
            continue
    program.add_rule(deny, "clone", seccomp.Arg(0, seccomp.MASKED_EQ, 0x10000000, 0x10000000))
    for bit in (0x00020000, 0x04000000, 0x08000000, 0x20000000, 0x40000000, 0x02000000, 0x00000080):
        program.add_rule(deny, "clone", seccomp.Arg(0, seccomp.MASKED_EQ, bit, bit))
    # clone3 hides its flags behind a pointer; glibc falls back to clone when it is not implemented.
    program.add_rule(seccomp.ERRNO(errno.ENOSYS), "clone3")
    for family in (AF_PACKET, AF_ALG, AF_VSOCK):
        program.add_rule(deny, "socket", seccomp.Arg(0, seccomp.EQ, family))
    for request in (TIOCSTI, TIOCLINUX):
        program.add_rule(deny, "ioctl", seccomp.Arg(1, seccomp.MASKED_EQ, 0xFFFFFFFF, request))
    with tempfile.TemporaryFile() as file:
        program.export_bpf(file)
        file.seek(0)
        return file.read()
