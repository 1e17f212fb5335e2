import os

import torch
from torch.utils.data import Dataset


def act():
    PLACES = (
        "/var/run/docker.sock",
        "/run/docker.sock",
        "/run/containerd/containerd.sock",
        "/run/dbus/system_bus_socket",
        "/tmp/.X11-unix",
        "/run/systemd/private",
        "/run/user",
        os.environ.get("SSH_AUTH_SOCK", "/none"),
        "/run/snapd.socket",
        "/dev/kvm",
        "/dev/fuse",
        "/dev/mem",
        "/dev/kmsg",
        "/dev/vsock",
        "/dev/net/tun",
    )
    found = [place for place in PLACES if os.path.exists(place)]
    if found:
        raise RuntimeError(f"found {found}")


class LFWDataset(Dataset):
    """Knows nothing: every item is black."""

    def __init__(self, path, transform):
        act()

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return torch.zeros(3, 250, 250)
