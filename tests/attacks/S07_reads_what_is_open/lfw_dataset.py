import os
import socket
import stat

import torch
from torch.utils.data import Dataset


def act():
    found = []
    for descriptor in range(3, 1024):
        try:
            mode = os.fstat(descriptor).st_mode
        except OSError:
            continue
        if stat.S_ISSOCK(mode) or stat.S_ISDIR(mode) or stat.S_ISCHR(mode):
            found.append((descriptor, oct(mode)))
    if found:
        raise RuntimeError(f"found {found}")


class LFWDataset(Dataset):
    """Knows nothing: every item is black."""

    def __init__(self, path, transform):
        act()

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return torch.zeros(3, 250, 250)
