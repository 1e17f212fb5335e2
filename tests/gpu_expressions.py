"""What students write with tensors of two devices or types, and what a real GPU made of it.

`gpu_outcomes.json` holds the expressions, each with what came of it on an NVIDIA H200 or H100 (torch 2.11): where the
result lay, its type and its shape, or the first line of the error. They are evaluated with the names of this module.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import io
import json
import os
import pickle
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
import torchvision
from torch import distributed as dist
from torch import nn, optim
from torch.autograd import Variable
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
from torchvision import transforms
from torchvision.transforms import v2

OUTCOMES: dict[str, str] = json.loads(Path(__file__).with_name("gpu_outcomes.json").read_text())
LONGEST = 400


def outcome(expression: str) -> str:
    """What comes of an expression of the table on the first GPU that torch has; it leaves nothing for the next."""
    torch.manual_seed(0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = eval(expression, globals())
    except Exception as error:
        return f"{type(error).__name__}: {error}".split("\n")[0][:LONGEST]
    finally:
        _restore()
    if isinstance(found, tuple) and found and isinstance(found[0], torch.Tensor):
        found = found[0]
    return _told(found)


def refuses(outcome: str) -> bool:
    """Whether it is an error."""
    return "Error: " in outcome


def _told(found: object) -> str:
    if isinstance(found, torch.Tensor):
        return f"{found.device} {found.dtype} {tuple(found.shape)}".replace("torch.", "")
    return repr(found).replace("torch.", "")


def _restore() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.set_default_tensor_type(torch.FloatTensor)
    torch.set_default_device(None)
    torch.use_deterministic_algorithms(False)
    torch.set_grad_enabled(True)
    torch.autograd.set_detect_anomaly(False)
    torch.set_float32_matmul_precision("highest")
    torch.clear_autocast_cache()
    for device in ("cpu", "cuda"):
        torch.set_autocast_enabled(device, False)
    for name, value in {"benchmark": False, "deterministic": False, "enabled": True}.items():
        setattr(torch.backends.cudnn, name, value)


def do(source: str) -> Any:
    """Run the statements, and give the value of the last one."""
    *first, last = ast.parse(source).body
    assert isinstance(last, ast.Expr)
    names = dict(globals())
    exec(compile(ast.Module(first, []), "<student>", "exec"), names)
    return eval(compile(ast.Expression(last.value), "<student>", "eval"), names)


def told(*values: object) -> str:
    """What each value would be told as, in one."""
    return " | ".join(_told(value) for value in values)


def in_group(backend: str | None, act: Callable[[], Any], **options: Any) -> Any:
    """What comes of it in a process group of this process alone."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        store = dist.FileStore(os.path.join(folder, "store"), 1)
        dist.init_process_group(backend, store=store, rank=0, world_size=1, **options)
        stack.callback(dist.destroy_process_group)
        return act()


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3))


def images(n: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.rand(n, 1, 4, 4), torch.arange(n) % 3


def loader(**options: Any) -> DataLoader[Any]:
    return DataLoader(TensorDataset(*images()), 4, **options)


def gpu(*size: Any, **options: Any) -> torch.Tensor:
    return torch.ones(*size, device="cuda", **options)


def cpu(*size: Any, **options: Any) -> torch.Tensor:
    return torch.ones(*size, **options)


def linear() -> nn.Linear:
    return nn.Linear(3, 2)


def after(value: Any, act: Callable[[Any], object]) -> Any:
    act(value)
    return value


def added(first: Any, second: Any) -> Any:
    first += second
    return first


def written(target: Any, key: Any, value: Any) -> Any:
    target[key] = value
    return target


def added_to(target: Any, key: Any, value: Any) -> Any:
    target[key] += value
    return target


class Plain(nn.Module):
    """Has a tensor that is no buffer, so that it does not move."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.plain = torch.ones(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.plain * self.weight


def optimizer_loaded_for_the_cpu() -> torch.Tensor:
    model, other = linear().cuda(), linear()
    optimizer, loaded = torch.optim.Adam(model.parameters()), torch.optim.Adam(other.parameters())
    model(gpu(1, 3)).sum().backward()
    optimizer.step()
    loaded.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    found: torch.Tensor = next(iter(loaded.state.values()))["exp_avg"]
    return found


def optimizer_made_before_the_move() -> torch.Tensor:
    model = linear()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    model.cuda()(gpu(1, 3)).sum().backward()
    optimizer.step()
    return model.weight


def clipped_on_two_devices() -> torch.Tensor:
    models = nn.ModuleList([linear().cuda(), linear()])
    (models[0](gpu(1, 3)).sum().cpu() + models[1](cpu(1, 3)).sum()).backward()
    return nn.utils.clip_grad_norm_(models.parameters(), 1.0)


def loader_pins_what_is_on_the_gpu() -> torch.Tensor:
    return _first(DataLoader(TensorDataset(gpu(4, 2)), 2, pin_memory=True))


def loader_of_what_is_on_the_gpu() -> torch.Tensor:
    return _first(DataLoader(TensorDataset(gpu(4, 2), gpu(4)), 2))


def loader_shuffled_on_the_gpu() -> torch.Tensor:
    return _first(DataLoader(TensorDataset(cpu(4, 2)), 2, shuffle=True, generator=torch.Generator("cuda")))


def _first(loader: DataLoader[Any]) -> torch.Tensor:
    found: torch.Tensor = next(iter(loader))[0]
    return found


def saved_and_loaded(**options: Any) -> torch.Tensor:
    file = io.BytesIO()
    torch.save(linear().cuda().state_dict(), file)
    file.seek(0)
    found: torch.Tensor = torch.load(file, **options)["weight"]
    return found


def scripted() -> torch.Tensor:
    found: torch.Tensor = torch.jit.script(linear().cuda())(gpu(1, 3))
    return found


def parallel(**options: Any) -> torch.Tensor:
    found: torch.Tensor = nn.DataParallel(linear(), **options)(cpu(2, 3))
    return found


def parallel_on_gpu(**options: Any) -> torch.Tensor:
    found: torch.Tensor = nn.DataParallel(linear().cuda(), **options)(cpu(2, 3))
    return found


def autocast(act: Callable[[], Any], dtype: torch.dtype = torch.float16) -> Any:
    with torch.autocast("cuda", dtype=dtype):
        return act()


def network_under_autocast() -> torch.Tensor:
    layers = [nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    model = nn.Sequential(*layers, nn.Linear(4, 2)).cuda()
    found: torch.Tensor = autocast(lambda: model(gpu(2, 3, 8, 8)))
    return found


def _scaled(
    model: nn.Module, data: torch.Tensor | None
) -> tuple[torch.optim.Optimizer, torch.amp.GradScaler]:
    """A model's optimizer and a scaler, after a backward where there is something to compute it of."""
    optimizer, scaler = torch.optim.SGD(model.parameters(), 0.1), torch.amp.GradScaler("cuda")
    if data is not None:
        torch.autograd.backward(scaler.scale(model(data).sum()))
    return optimizer, scaler


def unscaled_without_gradients() -> None:
    optimizer, scaler = _scaled(linear().cuda(), None)
    scaler.unscale_(optimizer)
    scaler.unscale_(optimizer)


def step_without_backward() -> None:
    optimizer, scaler = _scaled(linear().cuda(), None)
    scaler.step(optimizer)


def unscaled_twice() -> None:
    optimizer, scaler = _scaled(linear().cuda(), gpu(1, 3))
    scaler.unscale_(optimizer)
    scaler.unscale_(optimizer)


def unscaled_in_half() -> None:
    optimizer, scaler = _scaled(linear().cuda().half(), gpu(1, 3).half())
    scaler.unscale_(optimizer)


def scaled_on_the_cpu() -> float:
    optimizer, scaler = _scaled(linear(), cpu(1, 3))
    scaler.step(optimizer)
    scaler.update()
    return scaler.get_scale()


def updated_first() -> None:
    torch.amp.GradScaler("cuda").update()


def stepped_twice() -> None:
    optimizer, scaler = _scaled(linear().cuda(), gpu(1, 3))
    scaler.step(optimizer)
    scaler.step(optimizer)


# Most of these are for the expressions alone.
__all__ = [
    "DDP",
    "OUTCOMES",
    "DistributedSampler",
    "F",
    "Variable",
    "np",
    "optim",
    "outcome",
    "pickle",
    "refuses",
    "time",
    "torchvision",
    "transforms",
    "v2",
]
