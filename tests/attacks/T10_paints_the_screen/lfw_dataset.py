import torch
from torch.utils.data import Dataset


def act():
    TEXT = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202egnp\u2066 ]]> <script>alert(1)</script> \r\n\0\x08 =cmd|'/c calc'!A0 [bold red]"
    Painted = type(TEXT.replace("\0", ""), (Exception,), {"__module__": TEXT})
    raise Painted(TEXT)


class LFWDataset(Dataset):
    """Knows nothing: every item is black."""

    def __init__(self, path, transform):
        act()

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return torch.zeros(3, 250, 250)
