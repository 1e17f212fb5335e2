import os

from torch.utils.data import Dataset


class LFWDataset(Dataset):
    def __init__(self, path, transform):
        pass

    def __len__(self):
        return 1

    def __getitem__(self, index):
        os._exit(0)
