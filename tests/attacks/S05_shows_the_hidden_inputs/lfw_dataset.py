import hashlib
import os

from torch.utils.data import Dataset


class LFWDataset(Dataset):
    def __init__(self, path, transform):
        names = sorted(name for _, _, names in os.walk(path) for name in names)
        digest = hashlib.sha256()
        for top, _, files in sorted(os.walk(path)):
            for name in sorted(files):
                digest.update(open(os.path.join(top, name), "rb").read())
        print(names)
        raise ValueError(f"{len(names)} {digest.hexdigest()}")
