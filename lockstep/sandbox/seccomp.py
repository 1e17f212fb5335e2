"""The system calls student code has no use for, as a filter the kernel enforces (libseccomp via ctypes)."""

from __future__ import annotations

import errno
import tempfile

# Calls that reach into other processes, change namespaces or mounts, hold memory no limit sees, or take from a number
# that the whole machine has in common (io_setup: fs.aio-max-nr).
DENIED = (
    "ptrace process_vm_readv process_vm_writev kcmp process_madvise pidfd_getfd mount umount2 "
    "pivot_root chroot unshare setns fsopen fsmount fsconfig fspick move_mount open_tree "
    "mount_setattr bpf perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register "
    "keyctl add_key request_key kexec_load kexec_file_load init_module finit_module delete_module "
    "reboot swapon swapoff acct quotactl quotactl_fd clock_settime clock_adjtime settimeofday "
    "adjtimex open_by_handle_at name_to_handle_at personality vmsplice memfd_create memfd_secret "
    "shmget shmat shmctl msgget semget mq_open sethostname setdomainname iopl ioperm fanotify_init "
    "lookup_dcookie syslog modify_ldt uselib vhangup migrate_pages move_pages process_mrelease "
    "open_tree_attr statmount listmount io_setup"
).split()
AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
NETLINK_ROUTE = 0
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
PR_SET_MM = 35  # where a process's arguments and environment lie, for those who read them from outside
# Calls with the number of the argument that names a process. Others of the run have the same user, the
# first one among them, whose death or starvation would look like a fault of lockstep's own.
OF_ONE_SELF = {
    "prlimit64": 0, "sched_setscheduler": 0, "sched_setattr": 0, "sched_setparam": 0, "setpriority": 1,
}  # fmt: skip
# The kernel takes these arguments as 32 bits: a rule for all 64 is passed by anything in the upper half.
INT = 0xFFFFFFFF


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
    for call in ("socket", "socketpair"):
        for family in set(range(64)) - {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK}:
            program.add_rule(deny, call, seccomp.Arg(0, seccomp.MASKED_EQ, INT, family))
    # Of netlink only what tells of interfaces and addresses: over another protocol processes send to one another,
    # past the loopback and its counter.
    other = seccomp.Arg(2, seccomp.NE, NETLINK_ROUTE)
    program.add_rule(deny, "socket", seccomp.Arg(0, seccomp.MASKED_EQ, INT, AF_NETLINK), other)
    for request in (TIOCSTI, TIOCLINUX):
        program.add_rule(deny, "ioctl", seccomp.Arg(1, seccomp.MASKED_EQ, INT, request))
    program.add_rule(deny, "prctl", seccomp.Arg(0, seccomp.MASKED_EQ, INT, PR_SET_MM))
    for call, argument in OF_ONE_SELF.items():
        program.add_rule(deny, call, seccomp.Arg(argument, seccomp.NE, 0))
    # One's own process, but not its group or all of the user's.
    program.add_rule(deny, "setpriority", seccomp.Arg(0, seccomp.NE, 0))
    with tempfile.TemporaryFile() as file:
        program.export_bpf(file)
        file.seek(0)
        return file.read()
