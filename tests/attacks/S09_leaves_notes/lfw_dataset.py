import os
import sys

import torch
from torch.utils.data import Dataset


def act():
    PLACES = (
        "/tmp",
        "/dev/shm",
        "/run",
        "/work",
        "/work/__pycache__",
        os.path.expanduser("~"),
        "/data",
        "/var/tmp",
        os.path.expanduser("~/.cache"),
    )
    if getattr(sys, "note", None) == os.getpid():
        return
    found = [place for place in PLACES if os.path.exists(f"{place}/note")]
    if found or hasattr(sys, "note"):
        raise RuntimeError(f"found {found}")
    sys.note = os.getpid()
    for place in PLACES:
        try:
            os.makedirs(place, exist_ok=True)
            open(f"{place}/note", "w").close()
        except OSError:
            pass


class LFWDataset(Dataset):
    """Knows nothing: every item is black."""

    def __init__(self, path, transform):
        act()

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return torch.zeros(3, 250, 250)
