import torch
from torch.utils.data import Dataset


def planted():
    with open("@CANARY@", "w") as file:
        file.write("unpickled")
    raise SystemExit(0)


class LFWDataset(Dataset):
    def __init__(self, path, transform):
        pass

    def __len__(self):
        return 1

    def __reduce__(self):
        return exec, ("open('@CANARY@', 'w').write('unpickled')",)

    def __getitem__(self, index):
        return torch.zeros(3, 250, 250)
