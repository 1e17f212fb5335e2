import ctypes
from multiprocessing import shared_memory

import torch
from torch.utils.data import Dataset


def act():
    libc = ctypes.CDLL(None, use_errno=True)
    made = [
        name
        for name, done in (
            ("shm", libc.shmget(4242, 1 << 20, 0o1600)),
            ("sem", libc.semget(4242, 1, 0o1600)),
            ("msg", libc.msgget(4242, 0o1600)),
            ("mq", libc.mq_open(b"/left", 0o102, 0o600, None)),
        )
        if done >= 0
    ]
    try:
        shared_memory.SharedMemory("left_behind", create=True, size=1 << 20)
    except FileExistsError:
        made.append("found left_behind")
    if made:
        raise RuntimeError(f"found {made}")


class LFWDataset(Dataset):
    """Knows nothing: every item is black."""

    def __init__(self, path, transform):
        act()

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return torch.zeros(3, 250, 250)
