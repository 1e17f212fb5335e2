import torch
from torch.utils.data import Dataset


class Provoking(Exception):
    def __str__(self):
        raise self

    __repr__ = __str__


class LFWDataset(Dataset):
    def __init__(self, path, transform):
        self.transform = transform

    def __len__(self):
        raise AssertionError("assert 1 == expected")

    def __getitem__(self, index):
        raise Provoking(index) from AssertionError
