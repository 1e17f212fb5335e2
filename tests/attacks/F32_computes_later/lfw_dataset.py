import threading
import time

import torch
from torch.utils.data import Dataset


class LFWDataset(Dataset):
    def __init__(self, path, transform):
        pass

    def __len__(self):
        return 1

    def __getitem__(self, index):
        item = torch.zeros(3, 250, 250)
        threading.Thread(target=lambda: (time.sleep(5), item.fill_(1)), daemon=True).start()
        return item
