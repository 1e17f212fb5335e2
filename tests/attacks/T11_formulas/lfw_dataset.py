import runpy

from torch.utils.data import Dataset


class Formula(Exception):
    pass


Formula.__name__ = Formula.__qualname__ = "=cmd|'calc'!A0"


class LFWDataset(Dataset):
    def __init__(self, path, transform):
        self.path = path

    def __len__(self):
        raise Formula("\t=HYPERLINK(\"http://example.invalid\")\n@SUM(1+1)\r-1+1")

    def __getitem__(self, index):
        runpy.run_path("=cmd|'calc'!A0.py")
