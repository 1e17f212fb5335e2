import torch
from torch.utils.data import Dataset


class LFWDataset(Dataset):
    def __init__(self, path, transform):
        pass

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return torch.zeros(1).expand(3, 250, 250).mean()
