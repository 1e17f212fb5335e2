import ctypes
import os
import socket

import torch
from torch.utils.data import Dataset

# x86-64: bpf, userfaultfd, io_uring_setup, perf_event_open, keyctl, add_key, init_module, kexec_load,
# open_by_handle_at, fsopen, unshare, process_vm_writev, vmsplice, fanotify_init, personality
CALLS = {
    321: (0, 0, 0), 323: (0,), 425: (8, 0), 298: (0, 0, -1, -1, 0), 250: (0, -3, 1), 248: (0, 0, 0, 0, -3),
    175: (0, 0, 0), 246: (0, 0, 0, 0), 304: (-100, 0, 0), 430: (b"tmpfs", 0), 272: (0x10000000,),
    311: (1, 0, 0, 0, 0, 0), 278: (1, 0, 0, 0), 300: (0, 0), 135: (0x0040000,),
}  # fmt: skip
FAMILIES = (3, 9, 17, 21, 29, 30, 31, 38, 40, 44, 45)  # AX.25, X.25, packet, RDS, CAN, TIPC, ... vsock, XDP


def act():
    libc = ctypes.CDLL(None, use_errno=True)
    done = []
    for number, arguments in CALLS.items():
        ctypes.set_errno(0)
        if libc.syscall(number, *arguments) >= 0 or ctypes.get_errno() not in (1, 38):
            done.append(number)
    for family in FAMILIES:
        try:
            socket.socket(family, socket.SOCK_RAW).close()
            done.append(f"family {family}")
        except PermissionError:
            pass
    # A new table of nf_tables: what most of the exploits of the last years begin with.
    batch = b"\x14\0\0\0\x10\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\x0a"
    table = b"\x20\0\0\0\x00\x0a\x05\x04\1\0\0\0\0\0\0\0\2\0\0\0\x09\0\1\0pwned\0\0\0"
    end = b"\x14\0\0\0\x11\0\x01\0\2\0\0\0\0\0\0\0\0\0\0\x0a"
    try:
        netfilter = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)
        netfilter.settimeout(0.2)
        netfilter.send(batch + table + end)
        answer = netfilter.recv(4096)
        if int.from_bytes(answer[16:20], "little", signed=True) >= 0:
            done.append("nf_tables")
    except OSError:
        pass
    for path in ("/dev/kvm", "/dev/mem", "/dev/fuse", "/dev/net/tun", "/dev/userfaultfd", "/dev/vhost-net"):
        try:
            os.close(os.open(path, os.O_RDWR))
            done.append(path)
        except OSError:
            pass
    if done:
        raise RuntimeError(f"found {done}")


class LFWDataset(Dataset):
    """Knows nothing: every item is black."""

    def __init__(self, path, transform):
        act()

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return torch.zeros(3, 250, 250)
