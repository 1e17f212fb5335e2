import json
import random
import struct

import numpy
import torch
from torch.utils.data import Dataset


def act():
    assert numpy.__version__ and torch.__version__ and json.dumps and random.random and struct.Struct


class LFWDataset(Dataset):
    """Knows nothing: every item is black."""

    def __init__(self, path, transform):
        act()

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return torch.zeros(3, 250, 250)
