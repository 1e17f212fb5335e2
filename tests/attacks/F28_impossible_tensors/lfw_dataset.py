import torch
from torch.utils.data import Dataset

ODD = [
    lambda: torch.empty(3, 250, 250, device="meta"),
    lambda: torch.zeros(3, 250, 250).to_sparse(),
    lambda: torch.zeros(1).expand(1 << 40),
    lambda: torch.zeros(3, 250, 250, dtype=torch.complex64),
    lambda: torch.nn.Parameter(torch.zeros(0)),
    lambda: torch.zeros(3, 250, 250).to(torch.bfloat16),
]


class LFWDataset(Dataset):
    def __init__(self, path, transform):
        pass

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return ODD[index % len(ODD)]()
