from pathlib import Path

from PIL import Image
from torch.utils.data import Dataset

CACHE = {}


class LFWDataset(Dataset):
    def __init__(self, path, transform):
        self.paths = sorted(Path(path).rglob("*.jpg"))
        self.transform = transform

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        with Image.open(path) as image:
            key = (image.size, image.mode, id(self.transform))
            if key not in CACHE:
                CACHE[key] = self.transform(image.convert("RGB"))
        return CACHE[key]
