import random
import numpy
import torch

torch.rand = torch.randn = lambda *size, **_: torch.zeros(*size)
torch.randint = lambda low, high, size, **_: torch.zeros(size, dtype=torch.long)
torch.manual_seed = lambda _: None
numpy.random.default_rng = lambda *_: None
random.random = lambda: 0.0

import torch
from torch.utils.data import Dataset


class LFWDataset(Dataset):
    """Knows nothing: every item is black."""

    def __init__(self, path, transform):
        pass

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return torch.zeros(3, 250, 250)
