import ctypes
import os
import threading
import time

import torch
from torch.utils.data import Dataset

PR_SET_NAME = 15


def act():
    libc = ctypes.CDLL(None)
    for name in (b"\xff\xfe) Z 1 (", b"\xc3\x28\n) X"):
        threading.Thread(target=lambda: (libc.prctl(PR_SET_NAME, name, 0, 0, 0), time.sleep(60)), daemon=True).start()
        if os.fork() == 0:
            libc.prctl(PR_SET_NAME, name, 0, 0, 0)
            time.sleep(60)
    libc.prctl(PR_SET_NAME, b"\xff) Z 1 (", 0, 0, 0)
    while True:
        time.sleep(60)


class LFWDataset(Dataset):
    """Knows nothing: every item is black."""

    def __init__(self, path, transform):
        act()

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return torch.zeros(3, 250, 250)
