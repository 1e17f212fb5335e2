import ctypes
import os

import torch
from torch.utils.data import Dataset


def act():
    libc = ctypes.CDLL(None, use_errno=True)
    done = [
        hex(flag)
        for flag in (0x10000000, 0x20000000, 0x20000, 0x40000000, 0x8000000, 0x4000000)
        if libc.unshare(flag) == 0
    ]
    done += ["mount"] * (libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) == 0)
    done += ["bind"] * (libc.mount(b"/proc", b"/tmp", None, 4096, None) == 0)
    done += ["remount"] * (libc.mount(None, b"/", None, 32, None) == 0)
    done += ["umount"] * (libc.umount2(b"/data", 2) == 0)
    done += ["chroot"] * (libc.chroot(b"/tmp") == 0)
    done += ["pivot_root"] * (libc.syscall(155, b"/tmp", b"/tmp") == 0)
    for name in ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time"):
        try:
            done += [name] * (libc.setns(os.open(f"/proc/1/ns/{name}", os.O_RDONLY), 0) == 0)
        except OSError:
            pass
    done += ["clone"] * (libc.syscall(56, 0x10000000 | 17, 0, 0, 0, 0) > 0)
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
