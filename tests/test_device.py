"""The emulated GPUs: results of the CPU, devices and refusals of CUDA, nothing left behind."""

from __future__ import annotations

import copy
import io
import multiprocessing
import pickle
import subprocess
import sys
import threading
import time
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lockstep.exercise import Server
from lockstep.sandbox.box import Box
from lockstep.sandbox.device import Machine, emulated_gpus, home
from lockstep.sandbox.device.machine import MOST_QUEUED
from tests.sandboxed import message, run, seen

Tensors = dict[str, torch.Tensor]


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """More threads than cores cost more than the tests' small tensors take."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def gpus() -> Iterator[Machine]:
    with emulated_gpus(3) as machine:
        yield machine


def _inputs(device: str) -> Tensors:
    """The same tensors on any device."""
    torch.manual_seed(3)
    tensors = {
        "a": torch.randn(4, 6),
        "b": torch.randn(4, 6),
        "square": torch.randn(5, 5) + 5 * torch.eye(5),
        "image": torch.randn(2, 3, 8, 8),
        "kernel": torch.randn(4, 3, 3, 3),
        "batch": torch.randn(3, 4, 8),
        "labels": torch.tensor([0, 5, 2, 3]),
        "positive": torch.rand(4, 6) + 0.1,
        "weights": torch.rand(6),
        "mask": torch.rand(4, 6) > 0.5,
        "bytes": torch.randint(0, 255, (4, 6), dtype=torch.uint8),
    }
    return {name: tensor.to(device) for name, tensor in tensors.items()}


def _lstm(t: Tensors) -> Any:
    torch.manual_seed(0)
    return nn.LSTM(8, 5, num_layers=2, batch_first=True, bidirectional=True).to(t["batch"].device)(
        t["batch"]
    )[0]


def _packed(t: Tensors) -> Any:
    torch.manual_seed(0)
    packed = nn.utils.rnn.pack_padded_sequence(t["batch"], [4, 2, 1], batch_first=True)
    out, _ = nn.GRU(8, 5, batch_first=True).to(t["batch"].device)(packed)
    return nn.utils.rnn.pad_packed_sequence(out, batch_first=True)[0]


def _attention(t: Tensors) -> Any:
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(8, 2, batch_first=True).to(t["batch"].device)
    return layer(t["batch"], t["batch"], t["batch"])[0]


def _encoder(t: Tensors) -> Any:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).to(t["batch"].device)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()(t["batch"])


def _set_items(t: Tensors) -> Any:
    x = t["a"].clone()
    x[0] = 7.0
    x[x > 1] = -1
    x[1, 2:4] = torch.tensor([1.0, 2.0])
    x[:, torch.tensor([0, 1])] *= 2
    x[t["labels"].clamp(max=3)] += 1
    return x


OPERATIONS: dict[str, Callable[[Tensors], Any]] = {
    "add": lambda t: t["a"] + t["b"],
    "add a number": lambda t: t["a"] + 1,
    "subtract from a number": lambda t: 1 - t["a"],
    "multiply by a CPU scalar tensor": lambda t: t["a"] * torch.tensor(2.5),
    "divide": lambda t: t["a"] / t["positive"],
    "power": lambda t: t["positive"] ** 2.5,
    "matmul": lambda t: t["a"] @ t["b"].t(),
    "linear": lambda t: F.linear(t["batch"], torch.ones(3, 8, device=t["a"].device)),
    "bmm": lambda t: torch.bmm(t["batch"], t["batch"].transpose(1, 2)),
    "einsum": lambda t: torch.einsum("bij,bkj->bik", t["batch"], t["batch"]),
    "addmm": lambda t: torch.addmm(t["square"], t["square"], t["square"]),
    "solve": lambda t: torch.linalg.solve(t["square"], t["square"] + 1),
    "svd": lambda t: torch.linalg.svdvals(t["square"]),
    "inverse": lambda t: torch.linalg.inv(t["square"]),
    "sum": lambda t: t["a"].sum(),
    "mean over a dimension": lambda t: t["a"].mean(1, keepdim=True),
    "var": lambda t: t["a"].var(0),
    "norm": lambda t: t["a"].norm(),
    "max with places": lambda t: t["a"].max(1).values,
    "argmax": lambda t: t["a"].argmax(1),
    "topk": lambda t: t["a"].topk(3)[0],
    "sort": lambda t: t["a"].sort(descending=True)[1],
    "cumsum": lambda t: t["a"].cumsum(1),
    "softmax": lambda t: F.softmax(t["a"], 1),
    "log_softmax": lambda t: F.log_softmax(t["a"], -1),
    "relu": lambda t: F.relu(t["a"]),
    "gelu": lambda t: F.gelu(t["a"]),
    "silu": lambda t: F.silu(t["a"]),
    "leaky_relu": lambda t: F.leaky_relu(t["a"], 0.1),
    "tanh": lambda t: torch.tanh(t["a"]),
    "sigmoid": lambda t: t["a"].sigmoid(),
    "clamp": lambda t: t["a"].clamp(-0.5, 0.5),
    "where": lambda t: torch.where(t["mask"], t["a"], 0.0),
    "masked_fill": lambda t: t["a"].masked_fill(t["mask"], -1e9),
    "comparison": lambda t: (t["a"] > t["b"]).float(),
    "conv2d": lambda t: F.conv2d(t["image"], t["kernel"], padding=1, stride=2),
    "conv_transpose2d": lambda t: F.conv_transpose2d(t["image"], t["kernel"].transpose(0, 1)),
    "max_pool2d": lambda t: F.max_pool2d(t["image"], 2),
    "avg_pool2d": lambda t: F.avg_pool2d(t["image"], 3, padding=1),
    "adaptive_avg_pool2d": lambda t: F.adaptive_avg_pool2d(t["image"], (3, 2)),
    "interpolate": lambda t: F.interpolate(t["image"], scale_factor=2, mode="bilinear"),
    "pad": lambda t: F.pad(t["image"], (1, 2, 0, 1), mode="reflect"),
    "unfold": lambda t: F.unfold(t["image"], 3),
    "batch_norm": lambda t: F.batch_norm(t["image"], None, None, training=True),
    "layer_norm": lambda t: F.layer_norm(t["a"], (6,)),
    "group_norm": lambda t: F.group_norm(t["image"], 3),
    "dropout": lambda t: (torch.manual_seed(1), F.dropout(t["a"], 0.5))[1],
    "embedding": lambda t: F.embedding(t["labels"], t["a"].t().contiguous()),
    "one_hot": lambda t: F.one_hot(t["labels"], 7),
    "cross_entropy": lambda t: F.cross_entropy(t["a"], t["labels"]),
    "cross_entropy with weights": lambda t: F.cross_entropy(
        t["a"], t["labels"], t["weights"], label_smoothing=0.1
    ),
    "cross_entropy of probabilities": lambda t: F.cross_entropy(t["a"], F.softmax(t["b"], 1)),
    "nll_loss": lambda t: F.nll_loss(t["a"], t["labels"]),
    "mse_loss": lambda t: F.mse_loss(t["a"], t["b"]),
    "smooth_l1_loss": lambda t: F.smooth_l1_loss(t["a"], t["b"]),
    "bce_with_logits": lambda t: F.binary_cross_entropy_with_logits(t["a"], t["mask"].float(), t["weights"]),
    "kl_div": lambda t: F.kl_div(F.log_softmax(t["a"], 1), F.softmax(t["b"], 1), reduction="batchmean"),
    "cosine_similarity": lambda t: F.cosine_similarity(t["a"], t["b"]),
    "cdist": lambda t: torch.cdist(t["a"], t["b"]),
    "cat": lambda t: torch.cat([t["a"], t["b"]], 1),
    "stack": lambda t: torch.stack([t["a"], t["b"]]),
    "split": lambda t: t["a"].split(2)[1],
    "chunk": lambda t: torch.cat(t["a"].chunk(3)[::-1]),
    "index by a mask": lambda t: t["a"][t["mask"]],
    "index by a CPU mask": lambda t: t["a"][t["mask"].cpu()],
    "index by CPU places": lambda t: t["a"][torch.tensor([2, 0])],
    "take a row": lambda t: t["a"][1],
    "write by index": _set_items,
    "gather": lambda t: t["a"].gather(1, t["labels"].unsqueeze(1)),
    "scatter_add": lambda t: torch.zeros_like(t["a"]).scatter_add(1, t["labels"].unsqueeze(1), t["b"][:, :1]),
    "index_add": lambda t: t["a"].index_add(1, t["labels"], t["b"][:, :4]),
    "nonzero": lambda t: t["mask"].nonzero(),
    "unique": lambda t: t["bytes"].unique(),
    "bincount": lambda t: t["labels"].bincount(),
    "permute and reshape": lambda t: t["image"].permute(0, 2, 3, 1).reshape(2, -1),
    "expand": lambda t: t["weights"].expand(4, -1) * t["a"],
    "flip and roll": lambda t: t["a"].flip(0).roll(2, 1),
    "tril": lambda t: torch.tril(t["square"]),
    "in place": lambda t: t["a"].clone().add_(t["b"]).mul_(2).clamp_(min=0),
    "change of type": lambda t: t["bytes"].float().div(255).half().double(),
    "new tensors": lambda t: (
        t["a"].new_zeros(2) + t["a"].new_tensor([1.0, 2.0]) + torch.ones_like(t["weights"][:2])
    ),
    "random like": lambda t: (torch.manual_seed(5), torch.randn_like(t["a"]) + torch.rand_like(t["a"]))[1],
    "normal_": lambda t: (torch.manual_seed(5), t["a"].clone().normal_())[1],
    "multinomial": lambda t: (torch.manual_seed(5), t["positive"].multinomial(3))[1],
    "fft": lambda t: torch.fft.rfft(t["a"]).abs(),
    "attention": lambda t: F.scaled_dot_product_attention(t["batch"], t["batch"], t["batch"], is_causal=True),
    "grid_sample": lambda t: F.grid_sample(
        t["image"],
        F.affine_grid(
            torch.eye(2, 3, device=t["a"].device).expand(2, 2, 3), [2, 3, 4, 4], align_corners=False
        ),
        align_corners=False,
    ),
    "LSTM": _lstm,
    "GRU on packed sequences": _packed,
    "MultiheadAttention": _attention,
    "TransformerEncoder": _encoder,
    "pad_sequence": lambda t: nn.utils.rnn.pad_sequence([t["a"], t["b"][:2]]),
    "vmap": lambda t: torch.func.vmap(torch.dot)(t["a"], t["b"]),
    "functional gradient": lambda t: torch.func.grad(lambda x: (x**3).sum())(t["a"]),
    "checkpointed": lambda t: torch.utils.checkpoint.checkpoint(
        lambda x: x.tanh() * 2, t["a"], use_reentrant=False
    ),
    "meshgrid": lambda t: torch.meshgrid(t["weights"], t["weights"], indexing="ij")[0],
    "histc": lambda t: t["a"].histc(5),
    "quantile": lambda t: t["a"].quantile(0.3),
    "lerp": lambda t: torch.lerp(t["a"], t["b"], 0.3),
    "sparse": lambda t: t["a"].to_sparse() @ t["b"].t(),
}


def test_the_table_is_long_enough() -> None:
    assert len(OPERATIONS) >= 40


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_gives_what_the_cpu_gives(name: str, gpus: Machine) -> None:
    expected = OPERATIONS[name](_inputs("cpu"))
    assert expected.device == torch.device("cpu")
    found = OPERATIONS[name](_inputs("cuda:1"))
    assert found.device == torch.device("cuda:1")
    assert found.dtype == expected.dtype
    assert torch.equal(home(found), expected)


LEAVES = ("a", "b", "square", "image", "kernel", "batch", "positive")
# Their results are numbers without a derivative, or drawn at random.
NOT_DIFFERENTIABLE = {
    *("argmax", "sort", "comparison", "one_hot", "nonzero", "unique", "bincount", "multinomial", "normal_"),
    *("random like", "new tensors", "change of type", "functional gradient", "histc", "meshgrid", "sparse"),
}


@pytest.mark.parametrize("name", sorted(set(OPERATIONS) - NOT_DIFFERENTIABLE))
def test_the_gradient_is_what_the_cpu_gives(name: str, gpus: Machine) -> None:
    def gradients(device: str) -> list[torch.Tensor]:
        tensors = _inputs(device)
        leaves = [tensor.requires_grad_() for name, tensor in tensors.items() if name in LEAVES]
        result = OPERATIONS[name](tensors)
        if result.is_complex():
            result = result.abs()
        (result * result.detach()).sum().backward()
        found = [leaf.grad for leaf in leaves if leaf.grad is not None]
        assert all(grad.device == torch.device(device) for grad in found)
        assert found
        return [home(grad) for grad in found]

    expected, found = gradients("cpu"), gradients("cuda:2")
    assert len(expected) == len(found)
    assert all(map(torch.equal, expected, found))


# Training


def _network() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 6, 3),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout(0.25),
        nn.Conv2d(6, 8, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.LazyLinear(10),
    )


def _train(device: str, optimizer: Callable[..., torch.optim.Optimizer], steps: int = 5) -> list[np.ndarray]:
    torch.manual_seed(1)
    images, labels = torch.randn(40, 1, 14, 14), torch.randint(0, 10, (40,))
    model = _network().to(device)
    model(images[:2].to(device))
    optimize = optimizer(model.parameters())
    loader = DataLoader(TensorDataset(images, labels), batch_size=8, pin_memory=device != "cpu")
    losses = []
    for _, (batch, target) in zip(range(steps), loader, strict=False):
        batch, target = batch.to(device, non_blocking=True), target.to(device, non_blocking=True)
        optimize.zero_grad()
        loss = F.cross_entropy(model(batch), target)
        loss.backward()
        optimize.step()
        losses.append(loss.item())
    assert {str(value.device) for value in model.state_dict().values()} == {device}
    return [np.array(losses), *(home(value).numpy() for value in model.state_dict().values())]


OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-3),
    "SGD foreach": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, foreach=True),
    "SGD fused": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, fused=True),
    "Adam": lambda p: torch.optim.Adam(p, lr=1e-2),
    "Adam foreach": lambda p: torch.optim.Adam(p, lr=1e-2, amsgrad=True, foreach=True),
    "Adam fused": lambda p: torch.optim.Adam(p, lr=1e-2, fused=True),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=1e-2),
    "AdamW foreach": lambda p: torch.optim.AdamW(p, lr=1e-2, foreach=True),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=1e-3, centered=True),
    "Adagrad": lambda p: torch.optim.Adagrad(p, lr=1e-2),
    "Adadelta": lambda p: torch.optim.Adadelta(p),
    "Adamax": lambda p: torch.optim.Adamax(p),
    "NAdam": lambda p: torch.optim.NAdam(p),
    "RAdam": lambda p: torch.optim.RAdam(p),
    "ASGD": lambda p: torch.optim.ASGD(p),
    "Rprop": lambda p: torch.optim.Rprop(p),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_network_trains_as_on_the_cpu_bit_by_bit(name: str, gpus: Machine) -> None:
    expected, found = _train("cpu", OPTIMIZERS[name]), _train("cuda:0", OPTIMIZERS[name])
    assert all(map(np.array_equal, expected, found))


def test_lbfgs_trains_on_an_emulated_gpu(gpus: Machine) -> None:
    model = nn.Linear(3, 1).cuda()
    data = torch.randn(8, 3, device="cuda")
    optimizer = torch.optim.LBFGS(model.parameters(), line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss: torch.Tensor = (model(data) - data.sum(1, keepdim=True)).square().mean()
        loss.backward()
        return loss

    before = closure().item()
    optimizer.step(closure)
    assert closure().item() < before / 10


def test_the_optimizer_keeps_its_parameters_when_the_model_moves(gpus: Machine) -> None:
    model = nn.Linear(3, 2)
    optimizer = torch.optim.Adam(model.parameters())
    weight = model.weight
    model.cuda()
    assert model.weight is weight is optimizer.param_groups[0]["params"][0]
    assert type(weight) is nn.Parameter
    assert weight.is_leaf
    model(torch.ones(1, 3, device="cuda")).sum().backward()
    optimizer.step()
    assert optimizer.state[weight]["exp_avg"].device == torch.device("cuda:0")


def test_gradients_cross_from_one_device_to_another(gpus: Machine) -> None:
    first, second = nn.Linear(3, 3).to("cuda:0"), nn.Linear(3, 3).to("cuda:1")
    start = torch.ones(2, 3, requires_grad=True)
    second(first(start.to("cuda:0")).to("cuda:1")).sum().backward()
    assert [str(grad.device) for grad in (start.grad, first.weight.grad, second.weight.grad)] == [
        "cpu",
        "cuda:0",
        "cuda:1",
    ]


# Mixed devices


def _in_forward(addition: Callable[[torch.Tensor], torch.Tensor]) -> nn.Module:
    class Module(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(6, 6)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return addition(self.linear(x))

    return Module()


def _method(name: str, argument: str, *, here: str = "cpu", others: str = "cuda:0") -> str:
    return (
        f"Expected all tensors to be on the same device, but got {argument} is on {here}, different from other "
        f"tensors on {others} (when checking argument in method wrapper_CUDA_{name})"
    )


def _pair(first: str = "cuda:0", second: str = "cpu") -> str:
    return f"Expected all tensors to be on the same device, but found at least two devices, {first} and {second}!"


X = {"device": "cuda"}
MIXED: dict[str, tuple[Callable[[], Any], str]] = {
    "labels on the CPU": (
        lambda: F.cross_entropy(torch.zeros(2, 3, **X), torch.tensor([0, 1])),
        _method("nll_loss_forward", "target"),
    ),
    "labels of images on the CPU": (
        lambda: F.cross_entropy(torch.zeros(2, 3, 4, 4, **X), torch.zeros(2, 4, 4, dtype=torch.long)),
        _method("_nll_loss2d_forward", "target"),
    ),
    "class weights on the CPU": (
        lambda: F.cross_entropy(torch.zeros(2, 3, **X), torch.tensor([0, 1], **X), torch.ones(3)),
        _method("nll_loss_forward", "weight"),
    ),
    "model on the CPU": (
        lambda: nn.Linear(3, 2)(torch.zeros(1, 3, **X)),
        _method("addmm", "mat1", here="cuda:0", others="cpu"),
    ),
    "data on the CPU": (lambda: nn.Linear(3, 2).cuda()(torch.zeros(1, 3)), _method("addmm", "mat1")),
    "one layer on the CPU": (
        lambda: nn.Sequential(nn.Linear(3, 2).cuda(), nn.Linear(2, 2, bias=False))(torch.zeros(1, 3, **X)),
        _method("mm", "mat2"),
    ),
    "new tensor in forward": (
        lambda: _in_forward(lambda x: x + torch.randn(1, 6)).cuda()(torch.zeros(1, 6, **X)),
        _pair(),
    ),
    "hidden state in forward": (
        lambda: nn.RNN(3, 3).cuda()(torch.zeros(2, 1, 3, **X), torch.zeros(1, 1, 3)),
        "Input and hidden tensors are not at the same device, found input tensor at cuda:0 and hidden tensor at cpu",
    ),
    "targets of a regression": (lambda: F.mse_loss(torch.zeros(3, **X), torch.zeros(3)), _pair()),
    "two GPUs": (lambda: torch.zeros(3, **X) * torch.zeros(3, device="cuda:1"), _pair("cuda:0", "cuda:1")),
    "matmul of two GPUs": (
        lambda: torch.zeros(3, 3, **X) @ torch.zeros(3, 3, device="cuda:2"),
        _method("mm", "mat2", here="cuda:2"),
    ),
    "cat": (lambda: torch.cat([torch.zeros(1), torch.zeros(1, **X)]), _method("cat", "tensors", here="cuda:0", others="cpu")),
    "stack": (lambda: torch.stack([torch.zeros((), **X), torch.zeros(())]), _method("cat", "tensors")),
    "convolution on a CPU model": (
        lambda: nn.Conv2d(1, 2, 3)(torch.zeros(1, 1, 4, 4, **X)),
        "Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same",
    ),
    "convolution of CPU data": (
        lambda: nn.Conv2d(1, 2, 3).cuda()(torch.zeros(1, 1, 4, 4)),
        _method("__slow_conv2d_forward", "weight", here="cuda:0", others="cpu"),
    ),
    "batch norm": (
        lambda: nn.BatchNorm1d(3)(torch.zeros(2, 3, **X)),
        "Expected all tensors to be on the same device, but got weight is on cpu, different from other tensors on cuda:0",
    ),
    "embedding": (
        lambda: nn.Embedding(3, 2).cuda()(torch.tensor([1])),
        _method("_index_select", "index"),
    ),
    "indices of another GPU": (
        lambda: torch.zeros(3, **X)[torch.tensor([1], device="cuda:1")],
        "indices should be either on cpu or on the same device as the indexed tensor (cuda:0)",
    ),
    "GPU indices of a CPU tensor": (
        lambda: torch.zeros(3)[torch.tensor([1], **X)],
        "indices should be either on cpu or on the same device as the indexed tensor (cpu)",
    ),
    "mask": (
        lambda: torch.zeros(3, **X).masked_fill(torch.ones(3, dtype=torch.bool), 1.0),
        "expected self and mask to be on the same device, but got mask on cpu and self on cuda:0",
    ),
    "gather": (lambda: torch.zeros(2, 3, **X).gather(1, torch.zeros(2, 1, dtype=torch.long)), _method("gather", "index")),
    "running total on the CPU": (lambda: torch.zeros(()).add_(torch.ones((), **X)), _pair()),
    "in place": (lambda: torch.zeros(3).add_(torch.ones(3, **X)), _pair()),
    "comparison with labels on the CPU": (lambda: torch.zeros(3, **X).argmax() == torch.zeros(3), _pair()),
    "generator of the CPU": (
        lambda: torch.randn(2, generator=torch.Generator(), **X),
        "Expected a 'cuda' device type for generator but found 'cpu'",
    ),
    "generator of the CPU for a draw": (
        lambda: torch.ones(3, **X).multinomial(2, generator=torch.Generator()),
        "Expected a 'cuda' device type for generator but found 'cpu'",
    ),
    "order of a loader drawn on a GPU": (
        lambda: next(iter(DataLoader(TensorDataset(torch.ones(4)), shuffle=True, generator=torch.Generator("cuda")))),
        "Expected a 'cpu' device type for generator but found 'cuda'",
    ),
    "generator of a GPU for a draw on the CPU": (
        lambda: torch.ones(3).multinomial(2, generator=torch.Generator("cuda")),
        "Expected a 'cpu' device type for generator but found 'cuda'",
    ),
    "generator of the CPU where a GPU is the default": (
        lambda: _by_default(lambda: torch.randperm(3, generator=torch.Generator())),
        "Expected a 'cuda' device type for generator but found 'cpu'",
    ),
    "target of a single number": (lambda: F.mse_loss(torch.ones((), **X), torch.ones(())), _pair()),
    "convolution of a batch of CPU data": (
        lambda: nn.Conv2d(3, 4, 3).cuda()(torch.zeros(8, 3, 16, 16)),
        "Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same or input should "
        "be a MKLDNN tensor and weight is a dense tensor",
    ),
    "places that are searched": (lambda: torch.isin(torch.ones(3, **X), torch.ones(2)), _method("isin_Tensor_Tensor", "test_elements")),
    "a tensor written by one of the CPU": (lambda: _written(torch.tensor([0, 1], **X), torch.ones(2)), _pair()),
    "Huber's loss": (lambda: F.huber_loss(torch.ones(3, **X), torch.ones(3)), _method("_huber_loss", "target")),
    "lengths of packed sequences": (
        lambda: nn.utils.rnn.pack_padded_sequence(torch.zeros(2, 1, 3, **X), torch.tensor([2], **X)),
        "'lengths' argument should be a 1D CPU int64 tensor, but got 1D cuda:0 Long tensor",
    ),
    "a gradient of another device": (
        lambda: setattr(torch.zeros(2, requires_grad=True, **X), "grad", torch.zeros(2)),
        "attempting to assign a gradient with device type 'cpu' to a tensor with device type 'cuda'. Please ensure "
        "that the gradient and the tensor are on the same device",
    ),
    "allclose": (lambda: torch.allclose(torch.zeros(2, **X), torch.zeros(2)), _pair()),
    "clamp by a CPU scalar": (lambda: torch.ones(3, **X).clamp(max=torch.tensor(0.5)), _method("clamp_Tensor", "max")),
    "clamp_min by a CPU scalar": (lambda: torch.ones(3, **X).clamp_min(torch.tensor(0.5)), _method("clamp_min_Tensor", "min")),
    "logaddexp with a CPU scalar": (lambda: torch.logaddexp(torch.ones(3, **X), torch.tensor(0.5)), _method("logaddexp", "other")),
    "weights of classes as a list of one": (
        lambda: F.binary_cross_entropy_with_logits(torch.ones(3, **X), torch.ones(3, **X), pos_weight=torch.ones(3)),
        _pair(),
    ),
    "a GPU that is not there": (lambda: torch.zeros(1, device="cuda:3"), "CUDA error: invalid device ordinal"),
}  # fmt: skip


@pytest.mark.parametrize("name", MIXED)
def test_mixed_devices_are_refused_in_the_words_of_torch(name: str, gpus: Machine) -> None:
    act, text = MIXED[name]
    with pytest.raises(RuntimeError) as caught:
        act()
    assert str(caught.value).startswith(text)


def test_mixed_devices_are_refused_in_backward(gpus: Machine) -> None:
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return grads[0] * torch.full((3,), 2.0)

    x = torch.ones(3, device="cuda", requires_grad=True)
    with pytest.raises(RuntimeError, match="found at least two devices, cuda:0 and cpu!"):
        Wrong.apply(x).sum().backward()


NOT_NUMPY: dict[str, Callable[[torch.Tensor], Any]] = {
    "numpy": lambda x: x.numpy(),
    "asarray": lambda x: np.asarray(x),
    "array": lambda x: np.array(x),
}


@pytest.mark.filterwarnings("ignore:__array__ implementation")
@pytest.mark.parametrize("name", NOT_NUMPY)
def test_numpy_needs_the_tensor_on_the_cpu(name: str, gpus: Machine) -> None:
    with pytest.raises(TypeError) as caught:
        NOT_NUMPY[name](torch.zeros(3, device="cuda:1"))
    assert str(caught.value) == (
        "can't convert cuda:1 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
    )
    assert torch.ones(2, device="cuda").cpu().numpy().tolist() == [1, 1]
    assert torch.ones(2, device="cuda").numpy(force=True).tolist() == [1, 1]


ALLOWED: dict[str, Callable[[], Any]] = {
    "a CPU scalar tensor": lambda: torch.ones(3, **X) * torch.tensor(2.0) + torch.tensor(1),
    "a CPU scalar first": lambda: torch.tensor(2.0) - torch.ones(3, **X),
    "copy_ from the CPU": lambda: torch.zeros(3, **X).copy_(torch.ones(3)),
    "a slice written from the CPU": lambda: torch.zeros(3, **X).__setitem__(slice(0, 2), torch.ones(2)) or torch.ones(1, **X),
    "filled with a CPU scalar": lambda: torch.ones(3, **X).fill_(torch.tensor(2.0)),
    "filled with a scalar of a GPU": lambda: torch.ones(3).fill_(torch.tensor(2.0, **X)).cuda(),
    "a CPU scalar written by index": lambda: torch.zeros(3, **X).index_put_((torch.tensor([1], **X),), torch.tensor(1.0)),
    "divided by a CPU scalar": lambda: torch.ones(3, **X) // torch.tensor(2.0),
    "a positive weight on the CPU": lambda: F.binary_cross_entropy_with_logits(
        torch.ones(3, **X), torch.ones(3, **X), pos_weight=torch.tensor(2.0)
    ),
    "compared in place with a CPU scalar": lambda: torch.ones(3, **X).eq_(torch.tensor(1.0)),
    "distance to a CPU scalar": lambda: torch.dist(torch.ones(3, **X), torch.tensor(1.0)),
    "written by a CPU mask": lambda: _written(torch.tensor([True, False, True]), 1.0),
    "read by a CPU mask": lambda: torch.ones(3, **X)[torch.tensor([True, False, True])],
    "CTC with lengths on the CPU": lambda: F.ctc_loss(
        torch.zeros(5, 2, 4, **X), torch.ones(2, 2, dtype=torch.long, **X), torch.tensor([5, 5]), torch.tensor([2, 2])
    ),
    "drawn in place by a GPU's generator": lambda: torch.ones(3, **X).normal_(generator=torch.Generator("cuda").manual_seed(0)),
    "drawn by the default generator of a GPU": lambda: torch.ones(3, **X).multinomial(2, generator=torch.cuda.default_generators[0]),
    "drawn by a copy of a GPU's generator": lambda: torch.ones(3, **X).uniform_(generator=torch.Generator("cuda").clone_state()),
    "drawn around a tensor of a GPU": lambda: torch.normal(torch.ones(3, **X), 1.0, generator=torch.Generator("cuda")),
    "drawn where a GPU is the default": lambda: _by_default(lambda: torch.randperm(3, generator=torch.Generator("cuda"))),
    "drawn on the CPU where a GPU is the default": lambda: _by_default(
        lambda: torch.randperm(3, generator=torch.Generator(), device="cpu").cuda()
    ),
    "drawn on the CPU by what knows no default device": lambda: _by_default(
        lambda: torch.normal(0.0, 1.0, (3,), generator=torch.Generator()).cuda()
    ),
    "as many as a GPU counts, on the CPU": lambda: (torch.zeros(torch.tensor(3, **X)) + torch.arange(torch.tensor(3, **X))).cuda(),
    "a number of the CPU that learns": lambda: _learned(torch.zeros((), requires_grad=True)).cuda(),
    "moved from a GPU to another": lambda: torch.ones(3, device="cuda:1").to("cuda:0"),
}  # fmt: skip


def _written(key: Any, value: Any) -> torch.Tensor:
    tensor = torch.zeros(3, device="cuda")
    tensor[key] = value
    return tensor


def _learned(number: torch.Tensor) -> torch.Tensor:
    optimizer = torch.optim.Adam([number])
    for _ in range(2):
        optimizer.zero_grad()
        (torch.ones(3, device="cuda") * number).sum().backward()
        assert number.grad is not None
        assert number.grad.device.type == "cpu"
        optimizer.step()
    return number


def _by_default(make: Callable[[], torch.Tensor]) -> torch.Tensor:
    torch.set_default_device("cuda")
    try:
        return make()
    finally:
        torch.set_default_device(None)


@pytest.mark.parametrize("name", ALLOWED)
def test_what_cuda_lets_mix_is_let_through(name: str, gpus: Machine) -> None:
    assert ALLOWED[name]().device == torch.device("cuda:0")


def test_a_cpu_tensor_is_written_by_indices_of_a_gpu(gpus: Machine) -> None:
    assert written_from_a_gpu() == [[1.0, 0.0, 4.0], [0.0, 0.0], [[0.0, 2.0], [0.0, 0.0]]]


def written_from_a_gpu() -> list[Any]:
    """What CPU tensors hold that were written by masks and places that are on a GPU."""
    by_mask, by_place, counts = torch.ones(3), torch.ones(2), torch.zeros(2, 2)
    by_mask[torch.tensor([False, True, False], **X)] = 0.0
    by_mask[torch.tensor([2], **X)] = 4.0
    by_place[torch.tensor([True, True], **X)] = 0.0
    rows, columns = torch.tensor([0, 0], **X), torch.tensor([1, 1], **X)
    counts.index_put_((rows, columns), torch.ones(2), accumulate=True)
    by_mask[torch.tensor([0], **X)] = torch.tensor(1.0, **X)
    return [by_mask.tolist(), by_place.tolist(), counts.tolist()]


# Where tensors are


def test_tensors_are_of_torchs_own_types(gpus: Machine) -> None:
    x = torch.zeros(2, device="cuda")
    assert type(x) is torch.Tensor
    assert type(x.cpu()) is type(x.cuda()) is type(x + 1) is torch.Tensor
    assert (x.is_cuda, x.is_cpu, x.get_device(), x.cpu().is_cuda, x.cpu().get_device()) == (
        True,
        False,
        0,
        False,
        -1,
    )
    assert x.type() == "torch.cuda.FloatTensor"
    assert x.device.type == "cuda"
    assert repr(torch.ones(1, device="cuda:1")) == "tensor([1.], device='cuda:1')"
    assert f"{torch.tensor(1.5, device='cuda'):.2f}" == "1.50"
    assert torch.tensor([1, 2], device="cuda").tolist() == [1, 2]
    assert len(torch.zeros(3, device="cuda")) == 3


PLACED: dict[str, Callable[[], torch.Tensor]] = {
    "to a string": lambda: torch.zeros(2).to("cuda:1"),
    "to a device": lambda: torch.zeros(2).to(torch.device("cuda", 1)),
    "to a number": lambda: torch.zeros(2).to(1),
    "to another tensor": lambda: torch.zeros(2).to(torch.zeros(1, device="cuda:1")),
    "to with a type": lambda: torch.zeros(2).to("cuda:1", torch.float16),
    "to with keywords": lambda: torch.zeros(2).to(device="cuda:1", dtype=torch.float64, non_blocking=True, copy=True),
    "cuda of a number": lambda: torch.zeros(2).cuda(1),
    "cuda of a device": lambda: torch.zeros(2).cuda(device=torch.device("cuda:1"), non_blocking=True),
    "cuda of the current device": lambda: (torch.cuda.set_device(1), torch.zeros(2).cuda())[1],
    "zeros": lambda: torch.zeros(2, 2, device="cuda:1"),
    "randn": lambda: torch.randn(2, device=torch.device("cuda", 1)),
    "arange": lambda: torch.arange(4, device=1),
    "full": lambda: torch.full((2,), 3.0, device="cuda:1"),
    "eye": lambda: torch.eye(2, device="cuda:1"),
    "randperm": lambda: torch.randperm(4, device="cuda:1"),
    "tensor": lambda: torch.tensor([1.0], device="cuda:1", requires_grad=True),
    "tensor of a tensor": lambda: torch.tensor(np.ones(2), device="cuda:1"),
    "as_tensor": lambda: torch.as_tensor(np.ones(2), device="cuda:1"),
    "from_numpy": lambda: torch.from_numpy(np.ones(2)).cuda(1),
    "zeros_like": lambda: torch.zeros_like(torch.zeros(2, device="cuda:1")),
    "empty_like elsewhere": lambda: torch.empty_like(torch.zeros(2), device="cuda:1"),
    "new_zeros": lambda: torch.zeros(2, device="cuda:1").new_zeros(3),
    "new_tensor elsewhere": lambda: torch.zeros(2).new_tensor([1.0], device="cuda:1"),
    "type_as": lambda: torch.zeros(2).type_as(torch.zeros(1, device="cuda:1")),
    "old spelling of a type": lambda: (torch.cuda.set_device(1), torch.zeros(2).type(torch.cuda.FloatTensor))[1],
    "old spelling of a constructor": lambda: (torch.cuda.set_device(1), torch.cuda.LongTensor([1, 2]))[1],
    "a view": lambda: torch.zeros(2, 2, device="cuda:1")[0].view(-1),
    "data": lambda: nn.Parameter(torch.zeros(2, device="cuda:1")).data,
    "detached": lambda: torch.zeros(2, device="cuda:1", requires_grad=True).detach(),
    "a copy": lambda: copy.deepcopy(torch.zeros(2, device="cuda:1")),
    "a parameter": lambda: nn.Linear(2, 2, device="cuda:1").weight,
    "a buffer": lambda: nn.BatchNorm1d(2).to("cuda:1").running_mean,
    "a gradient": lambda: (w := nn.Linear(2, 2).to("cuda:1"), w(torch.ones(1, 2, device="cuda:1")).sum().backward())[0].weight.grad,
    "a copy of a model": lambda: copy.deepcopy(nn.Linear(2, 2).to("cuda:1")).weight,
    "moved inside vmap": lambda: torch.func.vmap(lambda x: x.to("cuda:1") + 1)(torch.ones(3)),
    "made inside a functional gradient": lambda: torch.func.grad(
        lambda w: (w * torch.ones(2).to("cuda:1")).sum()
    )(torch.ones(2, device="cuda:1")),
    "traced": lambda: torch.jit.trace(nn.Linear(2, 2).to("cuda:1"), torch.ones(1, 2, device="cuda:1"))(torch.ones(1, 2, device="cuda:1")),
    "a traced convolution": lambda: torch.jit.trace(
        nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)).eval().to("cuda:1"), torch.ones(1, 1, 4, 4, device="cuda:1")
    )(torch.ones(1, 1, 4, 4, device="cuda:1")),
    "sparse": lambda: torch.eye(2, device="cuda:1").to_sparse().coalesce(),
    "from meta": lambda: nn.Linear(2, 2, device="meta").to_empty(device="cuda:1").weight,
    "set data": lambda: _with_data(nn.Parameter(torch.ones(2))),
    "pickled": lambda: pickle.loads(pickle.dumps(torch.ones(2, device="cuda:1"))),
    "a state dict": lambda: nn.Linear(2, 2).to("cuda:1").state_dict()["weight"],
    "one hot": lambda: F.one_hot(torch.tensor([1], device="cuda:1")),
    "a loss module's weight": lambda: nn.CrossEntropyLoss(weight=torch.ones(2)).to("cuda:1").weight,
    "a device block": lambda: _in_block(),
}  # fmt: skip


def _with_data(parameter: nn.Parameter) -> torch.Tensor:
    parameter.data = parameter.data.to("cuda:1")
    return parameter


def _in_block() -> torch.Tensor:
    with torch.device("cuda:1"):
        return nn.Linear(2, 2)(torch.ones(1, 2))


@pytest.mark.filterwarnings("ignore:`torch.jit:FutureWarning")
@pytest.mark.parametrize("name", PLACED)
def test_a_tensor_is_where_it_was_put(name: str, gpus: Machine) -> None:
    found = PLACED[name]()
    assert found.device == torch.device("cuda:1")
    assert found.is_cuda


def test_the_default_device_holds_new_tensors(gpus: Machine) -> None:
    torch.set_default_device("cuda")
    try:
        assert torch.get_default_device() == torch.device("cuda:0")
        assert torch.zeros(1).is_cuda
        assert torch.tensor([1]).is_cuda
        assert nn.Linear(2, 2)(torch.ones(1, 2)).is_cuda
        assert not torch.zeros(1, device="cpu").is_cuda
        assert torch.randperm(3, generator=torch.Generator("cuda")).is_cuda
        with pytest.raises(RuntimeError, match="Expected a 'cuda' device type for generator but found 'cpu'"):
            torch.randperm(3, generator=torch.Generator())
    finally:
        torch.set_default_device(None)
    assert not torch.zeros(1).is_cuda


def test_lazy_modules_find_their_shapes_on_an_emulated_gpu(gpus: Machine) -> None:
    layers = nn.Sequential(nn.LazyConv2d(2, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(10)).to(
        "cuda"
    )
    assert layers(torch.rand(2, 1, 5, 5, device="cuda")).shape == (2, 10)
    assert {str(value.device) for value in layers.state_dict().values()} == {"cuda:0"}


def test_the_current_device_is_each_threads_own(gpus: Machine) -> None:
    found: list[Any] = []
    torch.cuda.set_device(2)
    thread = threading.Thread(
        target=lambda: found.append((torch.cuda.current_device(), torch.ones(2, device="cuda") + 1))
    )
    thread.start()
    thread.join()
    (index, tensor) = found[0]
    assert index == 0
    assert tensor.device == torch.device("cuda:0")
    with torch.cuda.device(1):
        assert torch.zeros(1).cuda().device == torch.device("cuda:1")
    assert torch.cuda.current_device() == 2


def test_a_forked_child_cannot_use_the_gpus_of_its_parent(gpus: Machine) -> None:
    torch.zeros(1).cuda()
    fork = multiprocessing.get_context("fork")
    receiver, sender = fork.Pipe()

    def child() -> None:
        try:
            torch.zeros(1).cuda()
        except RuntimeError as error:
            sender.send(str(error))

    process = fork.Process(target=child)
    process.start()
    process.join(60)
    assert receiver.recv().startswith("Cannot re-initialize CUDA in forked subprocess")


# Queries


QUERIES: dict[str, tuple[Callable[[], Any], Any]] = {
    "is_available": (lambda: torch.cuda.is_available(), True),
    "device_count": (lambda: torch.cuda.device_count(), 3),
    "current_device": (lambda: torch.cuda.current_device(), 0),
    "get_device_name": (lambda: torch.cuda.get_device_name(0), "Emulated GPU"),
    "get_device_properties": (lambda: torch.cuda.get_device_properties("cuda:1").total_memory, 16 << 30),
    "properties of a name": (lambda: torch.cuda.get_device_properties(0).name, "Emulated GPU"),
    "a number of its own": (
        lambda: len({torch.cuda.get_device_properties(index).uuid for index in range(3)}),
        3,
    ),
    "as many figures of memory": (lambda: torch.cuda.memory_stats()["num_alloc_retries"], 0),
    "as much cache as an A100": (lambda: torch.cuda.get_device_properties().L2_cache_size >> 20, 40),
    "get_device_capability": (lambda: torch.cuda.get_device_capability(), (8, 0)),
    "memory_reserved": (lambda: torch.cuda.memory_reserved(), 0),
    "mem_get_info": (lambda: torch.cuda.mem_get_info(), (16 << 30, 16 << 30)),
    "memory_summary": (lambda: isinstance(torch.cuda.memory_summary(), str), True),
    "empty_cache": (lambda: torch.cuda.empty_cache(), None),
    "synchronize": (lambda: torch.cuda.synchronize(), None),
    "synchronize a device": (lambda: torch.cuda.synchronize(torch.device("cuda", 1)), None),
    "is_bf16_supported": (lambda: torch.cuda.is_bf16_supported(), True),
    "is_initialized": (lambda: (torch.cuda.init(), torch.cuda.is_initialized())[1], True),
    "current_stream": (lambda: torch.cuda.current_stream().query(), True),
    "streams": (lambda: torch.cuda.stream(torch.cuda.Stream()).__enter__().device, torch.device("cuda:0")),
    "isinstance of a stream": (lambda: isinstance(torch.cuda.current_stream(), torch.cuda.Stream), True),
    "accelerator": (lambda: torch.accelerator.current_accelerator(), torch.device("cuda")),
    "accelerator there": (lambda: torch.accelerator.is_available(), True),
    "accelerator count": (lambda: torch.accelerator.device_count(), 3),
    "accelerator index": (lambda: torch.accelerator.current_device_index(), 0),
    "accelerator synchronize": (lambda: torch.accelerator.synchronize(), None),
    "rng state": (lambda: torch.equal(torch.cuda.get_rng_state(), torch.cuda.get_rng_state_all()[1]), True),
    "cudnn": (lambda: torch.backends.cudnn.is_available(), True),
    "cudnn flags": (lambda: torch.backends.cudnn.flags(benchmark=True).__enter__(), None),
    "can_device_access_peer": (lambda: torch.cuda.can_device_access_peer(0, 1), True),
    "nvtx": (lambda: torch.cuda.nvtx.range_push("x") or torch.cuda.nvtx.range_pop(), 0),
    "default generators": (lambda: len(torch.cuda.default_generators), 3),
    "is_pinned": (lambda: torch.zeros(2).pin_memory().is_pinned(), True),
    "pinned like another": (
        lambda: torch.empty_like(torch.zeros(2).cuda(), device="cpu", pin_memory=True).is_pinned(),
        True,
    ),
    "not pinned": (lambda: torch.zeros(2).is_pinned(), False),
}


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_is_answered(name: str, gpus: Machine) -> None:
    ask, answer = QUERIES[name]
    assert ask() == answer


def test_seeds_of_the_gpu_repeat_its_numbers(gpus: Machine) -> None:
    torch.cuda.manual_seed_all(7)
    first = torch.rand(3, device="cuda")
    torch.cuda.manual_seed(7)
    assert torch.equal(first, torch.rand(3, device="cuda"))
    state = torch.cuda.get_rng_state()
    second = torch.rand(3, device="cuda")
    torch.cuda.set_rng_state(state)
    assert torch.equal(second, torch.rand(3, device="cuda"))


def test_what_would_start_cuda_is_refused(gpus: Machine) -> None:
    with pytest.raises(NotImplementedError, match="emulated GPU"):
        torch.cuda.cudart()


@pytest.mark.parametrize("workers", [0, 1])
def test_a_loader_pins_its_batches(workers: int, gpus: Machine) -> None:
    data = TensorDataset(torch.arange(6.0), torch.arange(6))
    batches = list(DataLoader(data, batch_size=2, pin_memory=True, num_workers=workers))
    assert all(part.is_pinned() for batch in batches for part in batch)
    assert torch.cat([values for values, _ in batches]).tolist() == [0, 1, 2, 3, 4, 5]
    assert batches[0][0].cuda(non_blocking=True).device == torch.device("cuda:0")


# Files


LOCATIONS: dict[str, tuple[Any, str]] = {
    "as saved": (None, "cuda:1"),
    "cpu": ("cpu", "cpu"),
    "a string": ("cuda:2", "cuda:2"),
    "the current GPU": ("cuda", "cuda:0"),
    "a device": (torch.device("cuda", 2), "cuda:2"),
    "a function that leaves the CPU": (lambda storage, location: storage, "cpu"),
    "a function that moves": (lambda storage, location: storage.cuda(2), "cuda:2"),
    "a table": ({"cuda:1": "cuda:0"}, "cuda:0"),
}


@pytest.mark.parametrize("name", LOCATIONS)
@pytest.mark.parametrize("weights_only", [True, False])
def test_a_file_is_loaded_to_where_map_location_says(name: str, weights_only: bool, gpus: Machine) -> None:
    where, expected = LOCATIONS[name]
    model = nn.Linear(3, 2).to("cuda:1")
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    state = torch.load(file, map_location=where, weights_only=weights_only)
    assert {str(value.device) for value in state.values()} == {expected}
    assert torch.equal(home(state["weight"]), home(model.weight))
    fresh = nn.Linear(3, 2)
    fresh.load_state_dict(state)
    assert not fresh.weight.is_cuda
    assert torch.equal(fresh.weight, home(model.weight))


def test_a_file_saved_on_a_gpu_needs_map_location_without_one(gpus: Machine) -> None:
    file = io.BytesIO()
    torch.save(torch.ones(2, device="cuda:2"), file)
    file.seek(0)
    gpus.patches.undo()
    if not torch.cuda.is_available():
        with pytest.raises(RuntimeError, match="Attempting to deserialize object on a CUDA device"):
            torch.load(file)


# DataParallel


class _Net(nn.Module):
    """Keeps what its replicas are asked to forget."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.register_buffer("scale", torch.ones(1))
        self.calls = 0
        self.seen: list[tuple[int, str]] = []

    def forward(self, x: torch.Tensor, factor: float = 1.0) -> torch.Tensor:
        self.calls += 1
        self.seen.append((len(x), str(x.device)))
        assert self.layer.weight.device == self.scale.device == x.device
        return torch.tanh(self.layer(x)) * self.scale * factor


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("rows", [1, 2, 7])
def test_data_parallel_computes_what_one_device_does(count: int, rows: int) -> None:
    with emulated_gpus(count):
        torch.manual_seed(0)
        model, batch = _Net().cuda(), torch.randn(rows, 4)
        alone = model(batch.cuda())
        alone.square().sum().backward()
        expected = [home(parameter.grad) for parameter in model.parameters()]
        model.zero_grad()
        model.seen.clear()
        model.calls = 0
        parallel = nn.DataParallel(model)
        together = parallel(batch, factor=1.0) if rows >= count else parallel(batch)
        together.square().sum().backward()
        assert parallel.device_ids == list(range(count))
        assert together.device == torch.device("cuda:0")
        assert torch.allclose(home(together), home(alone), atol=1e-6)
        for parameter, grad in zip(model.parameters(), expected, strict=True):
            assert parameter.grad is not None
            assert parameter.grad.device == torch.device("cuda:0")
            assert torch.allclose(home(parameter.grad), grad, atol=1e-5)
        sizes = [len(part) for part in torch.zeros(rows).chunk(count)]
        assert sorted(model.seen) == sorted((size, f"cuda:{at}") for at, size in enumerate(sizes))


def test_state_written_in_the_forward_of_replicas_is_lost() -> None:
    with emulated_gpus(2):
        model = _Net().cuda()
        nn.DataParallel(model)(torch.randn(4, 4))
        assert model.calls == 0
        nn.DataParallel(model, device_ids=[0])(torch.randn(4, 4))
        assert model.calls == 1


def test_only_the_first_replica_keeps_buffers() -> None:
    with emulated_gpus(2):
        model = nn.BatchNorm1d(1, momentum=1.0).cuda()
        batch = torch.cat([torch.full((2, 1), 1.0), torch.full((2, 1), 5.0)])
        nn.DataParallel(model)(batch)
        assert model.running_mean is not None
        assert model.running_mean.item() == 1.0


def test_data_parallel_gathers_dicts_and_tuples_and_warns_about_scalars() -> None:
    class Many(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(1))

        def forward(self, x: dict[str, torch.Tensor]) -> Any:
            return {"pair": (x["x"] * self.weight, x["x"] + 1)}, x["x"].sum()

    with emulated_gpus(2), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        named, total = nn.DataParallel(Many().cuda())({"x": torch.arange(4.0)})
        assert home(named["pair"][1]).tolist() == [1, 2, 3, 4]
        assert home(total).tolist() == [1, 5]
    assert any("were scalars" in str(warning.message) for warning in said)


def test_data_parallel_wants_its_module_on_the_first_device() -> None:
    with emulated_gpus(2):
        parallel = nn.DataParallel(nn.Linear(2, 2), device_ids=[0, 1])
        with pytest.raises(
            RuntimeError, match="module must have its parameters and buffers on device cuda:0"
        ):
            parallel(torch.zeros(2, 2))
        other = nn.DataParallel(nn.Linear(2, 2).to("cuda:1"), device_ids=[1, 0], output_device=0)
        assert other(torch.zeros(3, 2)).device == torch.device("cuda:0")


def test_replicas_draw_the_same_random_numbers_every_time() -> None:
    def output() -> list[float]:
        torch.manual_seed(0)
        return home(nn.DataParallel(nn.Dropout(0.5))(torch.ones(30))).tolist()  # type: ignore[no-any-return]

    with emulated_gpus(3):
        assert output() == output()


def test_a_fault_in_a_replica_is_raised() -> None:
    with emulated_gpus(2):
        model = _in_forward(lambda x: x + torch.zeros(1, 6)).cuda()
        with pytest.raises(
            RuntimeError, match=r"(?s)Caught RuntimeError in replica 0.*found at least two devices"
        ):
            nn.DataParallel(model)(torch.zeros(4, 6))


# Mixed precision


def _dtypes(enabled: torch.dtype | None) -> list[torch.dtype]:
    torch.manual_seed(0)
    model = _network().cuda()
    model(torch.zeros(2, 1, 14, 14, device="cuda"))
    found: list[torch.dtype] = []
    for module in model:
        module.register_forward_hook(lambda module, args, out: found.append(out.dtype))
    with torch.autocast("cuda", dtype=enabled or torch.float16, enabled=enabled is not None):
        out = model(torch.randn(2, 1, 14, 14, device="cuda"))
        loss = F.cross_entropy(out, torch.tensor([0, 1], device="cuda"))
        found.append(loss.dtype)
    loss.backward()
    assert {parameter.grad.dtype for parameter in model.parameters() if parameter.grad is not None} == {
        torch.float32
    }
    return found


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast_computes_in_half_precision(dtype: torch.dtype, gpus: Machine) -> None:
    assert _dtypes(dtype) == [dtype] * 9 + [torch.float32]
    assert set(_dtypes(None)) == {torch.float32}


def test_values_under_autocast_are_those_of_half_precision(gpus: Machine) -> None:
    a, b = torch.randn(8, 8, device="cuda"), torch.randn(8, 8, device="cuda")
    with torch.autocast("cuda"):
        low = a @ b
        assert torch.exp(low).dtype == low.sum().dtype == F.softmax(low, 1).dtype == torch.float32
        assert (low + a).dtype == torch.float32
        with torch.autocast("cuda", enabled=False):
            assert (a @ b).dtype == torch.float32
        assert (a.cpu() @ b.cpu()).dtype == torch.float32
        assert (a.double() @ b.double()).dtype == torch.float64
        for low_or_not in (torch.sigmoid(low), torch.sigmoid(a)):
            with pytest.raises(RuntimeError, match="unsafe to autocast"):
                F.binary_cross_entropy(low_or_not, (b > 0).to(low_or_not.dtype))
        assert F.binary_cross_entropy(torch.sigmoid(a.cpu()), (b > 0).float().cpu()).dtype == torch.float32
    assert low.dtype == torch.float16
    assert torch.equal(low, a.half() @ b.half())
    assert (a @ b).dtype == torch.float32


def test_recurrent_and_attention_layers_run_under_autocast(gpus: Machine) -> None:
    data = torch.randn(2, 3, 4, device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        out, (hidden, _) = nn.LSTM(4, 5, batch_first=True).cuda()(data)
        assert out.dtype == hidden.dtype == torch.bfloat16
        out, _ = nn.MultiheadAttention(4, 2).cuda()(data, data, data)
        assert out.dtype == torch.bfloat16
    out.float().sum().backward()


def test_autocast_of_the_cpu_leaves_gpus_alone(gpus: Machine) -> None:
    on_gpu, on_cpu = torch.ones(2, 2, device="cuda"), torch.ones(2, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (on_gpu @ on_gpu).dtype == F.linear(on_gpu, on_gpu).dtype == torch.float32
        assert (on_cpu @ on_cpu).dtype == torch.bfloat16
    assert torch._C._len_torch_function_stack() == 0


@pytest.mark.parametrize(
    ("autocast", "scaler"),
    [
        (lambda: torch.amp.autocast("cuda"), lambda: torch.amp.GradScaler("cuda")),
        (lambda: torch.autocast(device_type="cuda", dtype=torch.float16), lambda: torch.GradScaler()),
        (lambda: torch.cuda.amp.autocast(), lambda: torch.cuda.amp.GradScaler()),
    ],
    ids=["amp", "autocast", "old"],
)
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_scaled_step_trains_and_an_overflow_is_skipped(
    autocast: Callable[[], Any], scaler: Callable[[], Any], gpus: Machine
) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)).cuda()
    optimizer, scale = torch.optim.SGD(model.parameters(), lr=0.1), scaler()
    data, labels = torch.randn(8, 4, device="cuda"), torch.randint(0, 2, (8,), device="cuda")

    def step(factor: float) -> float:
        optimizer.zero_grad()
        with autocast():
            out = model(data)
            assert out.dtype == torch.float16
            loss = F.cross_entropy(out * factor, labels)
        scale.scale(loss).backward()
        scale.unscale_(optimizer)
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scale.step(optimizer)
        scale.update()
        return norm.item()

    assert scale.get_scale() == 65536
    assert np.isfinite(step(1.0))
    assert scale.get_scale() == 65536
    before = home(model)
    assert not np.isfinite(step(float("inf")))
    assert scale.get_scale() == 32768
    assert all(torch.equal(before[name], value) for name, value in home(model).items())
    step(1.0)
    assert not torch.equal(before["0.weight"], home(model)["0.weight"])
    assert scale.state_dict()["scale"] == 32768


# Time and memory


LAG = 0.05
WAITING: dict[str, Callable[[torch.Tensor], Any]] = {
    "torch.cuda.synchronize": lambda out: torch.cuda.synchronize(),
    "torch.accelerator.synchronize": lambda out: torch.accelerator.synchronize(),
    "Stream.synchronize": lambda out: torch.cuda.current_stream().synchronize(),
    "item": lambda out: out.sum().item(),
    "cpu": lambda out: out.cpu(),
    "to": lambda out: out.to("cpu"),
    "tolist": lambda out: out.detach().tolist(),
    "str": lambda out: str(out),
    "bool": lambda out: bool(out[0, 0] > 0),
}


@pytest.mark.parametrize("name", WAITING)
def test_work_is_done_when_something_waits_for_it(name: str) -> None:
    with emulated_gpus(1, lag=LAG) as gpus:
        model, data = nn.Sequential(nn.Linear(2, 2), nn.Tanh()).cuda(), torch.ones(1, 2, device="cuda")
        start = time.perf_counter()
        model(data)
        out = model(data)
        assert not gpus.waits
        WAITING[name](out)
        assert time.perf_counter() - start >= 2 * LAG
        assert gpus.waits
        assert [wait.call for wait in gpus.synchronised] == ([name] if "synchronize" in name else [])
        first = gpus.waits[0]
        assert first.device == 0
        assert start < first.start < first.start + first.seconds < time.perf_counter()


def test_nothing_waits_for_a_copy_that_does_not_block() -> None:
    with emulated_gpus(1, lag=LAG) as gpus:
        nn.Linear(2, 2).cuda()(torch.ones(1, 2, device="cuda")).to("cpu", non_blocking=True)
        assert not gpus.waits


def test_events_tell_the_time_of_the_gpu() -> None:
    with emulated_gpus(1) as gpus:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        began = time.perf_counter()
        start.record()
        gpus.enqueue(0.08)
        began_late = (time.perf_counter() - began) * 1000
        end.record()
        assert not end.query()
        with pytest.raises(RuntimeError, match="device not ready"):
            start.elapsed_time(end)
        end.synchronize()
        assert end.query()
        assert 80 <= start.elapsed_time(end) <= 80 + began_late
        assert [wait.call for wait in gpus.synchronised] == ["torch.cuda.synchronize", "Event.synchronize"]


def test_every_gpu_has_work_of_its_own() -> None:
    with emulated_gpus(2) as gpus:
        done = gpus.enqueue(600.0, "cuda:1")
        torch.cuda.synchronize(0)
        assert time.perf_counter() < done


def test_nobody_queues_work_without_end() -> None:
    with emulated_gpus(1) as gpus:
        for _ in range(3 * MOST_QUEUED):
            done = gpus.enqueue(0.001)
        assert done - time.perf_counter() <= 0.001 * (MOST_QUEUED + 1)
        assert not gpus.waits


def test_replicas_work_at_the_same_time() -> None:
    with emulated_gpus(2, lag=60.0) as gpus:
        nn.DataParallel(nn.Linear(2, 2).cuda())(torch.ones(4, 2))
        first, second = gpus.clock.busy_until
        assert first > 0
        assert second > 0
        assert abs(first - second) < 30


def test_a_gpu_has_only_so_much_memory() -> None:
    with emulated_gpus(1, memory=1 << 20):
        kept = torch.zeros(100, 1024, device="cuda")
        assert torch.cuda.memory_allocated() == 400 << 10
        with pytest.raises(torch.cuda.OutOfMemoryError) as caught:
            kept.repeat(2, 1)
        assert (
            "CUDA out of memory. Tried to allocate 800.00 KiB. GPU 0 has a total capacity of 1.00 MiB"
            in str(caught.value)
        )
        assert torch.cuda.memory_allocated() == 400 << 10
        (kept + 1).sum()
        assert torch.cuda.max_memory_allocated() >= 800 << 10
        torch.cuda.reset_peak_memory_stats()
        assert torch.cuda.max_memory_allocated() == 400 << 10
        assert torch.cuda.mem_get_info() == ((1 << 20) - (400 << 10), 1 << 20)
        del kept, caught
        assert torch.cuda.memory_allocated() == 0
        torch.zeros(250, 1024, device="cuda")


def test_memory_of_what_is_no_gpu_is_only_asked_once_there_is_some() -> None:
    with emulated_gpus(1):
        assert torch.cuda.max_memory_allocated("cpu") == torch.cuda.memory_reserved("cpu") == 0
        torch.ones(3, device="cuda")
        with pytest.raises(ValueError, match="Expected a cuda device, but got: cpu"):
            torch.cuda.max_memory_allocated("cpu")


def test_what_backward_needs_counts_as_memory() -> None:
    def most(rows: int) -> bool:
        try:
            model(torch.zeros(rows, 64, device="cuda")).sum().backward()
        except torch.cuda.OutOfMemoryError:
            return False
        return True

    with emulated_gpus(1, memory=1 << 20):
        model = nn.Sequential(*[layer for _ in range(4) for layer in (nn.Linear(64, 64), nn.Tanh())]).cuda()
        assert most(64)
        assert not most(1024)
        assert most(64)


# The end


def _looks() -> list[object]:
    owners: list[Any] = [
        torch,
        torch.Tensor,
        torch.UntypedStorage,
        torch.cuda,
        torch._C,
        torch.accelerator,
        nn.LSTM,
    ]
    owners += [
        torch.cuda.memory,
        torch.nn.parallel.comm,
        threading.Thread,
        sys.modules["torch.optim.optimizer"],
        nn.RNNBase,
    ]
    return [dict(vars(owner)) for owner in owners]


def test_everything_is_as_before_in_the_end() -> None:
    nn.Linear(2, 2)(torch.zeros(1, 2))
    before = _looks()
    kernels = str(torch._C._dispatch_dump("aten::mm"))
    with emulated_gpus(2, lag=0.0):
        x = torch.ones(2, 2).cuda()
        with torch.autocast("cuda"):
            x @ x
        assert torch.cuda.device_count() == 2
    assert _looks() == before
    assert str(torch._C._dispatch_dump("aten::mm")) == kernels
    assert x.device == torch.device("cpu")
    assert torch.equal(home(x), torch.ones(2, 2))
    assert (torch.zeros(2, 2) + x).sum() == 4


def test_everything_is_as_before_after_a_fault() -> None:
    before = _looks()
    with pytest.raises(ZeroDivisionError), emulated_gpus():
        raise ZeroDivisionError
    assert _looks() == before


def test_the_emulation_is_not_nested() -> None:
    with emulated_gpus(), pytest.raises(RuntimeError, match="there already"), emulated_gpus():
        pass


def test_without_gpus_there_are_none() -> None:
    with emulated_gpus(0):
        assert not torch.cuda.is_available()
        assert torch.cuda.device_count() == 0
        assert torch.accelerator.current_accelerator() is None
        with pytest.raises(RuntimeError, match="No CUDA GPUs are available"):
            torch.zeros(1).cuda()
        assert nn.DataParallel(nn.Linear(2, 2))(torch.ones(3, 2)).device.type == "cpu"


def test_home_brings_everything_to_the_cpu(gpus: Machine) -> None:
    value = {"a": [torch.ones(1, device="cuda:1")], "b": (nn.Linear(2, 2).cuda(), 3, "x"), "c": None}
    found = home(value)
    assert found["a"][0].device == torch.device("cpu")
    assert type(found["a"][0]) is torch.Tensor
    assert not found["b"][0]["weight"].is_cuda
    assert not found["b"][0]["weight"].requires_grad
    assert found["b"][1:] == (3, "x")
    assert found["c"] is None


def test_it_starts_sooner_than_python() -> None:
    started, python = [], []
    for _ in range(5):
        start = time.perf_counter()
        with emulated_gpus(2):
            started.append(time.perf_counter() - start)
        start = time.perf_counter()
        subprocess.run([sys.executable, "-I", "-c", ""], check=True)
        python.append(time.perf_counter() - start)
    assert min(started) < min(python)


STUDENT = """
    import torch

    def train(model, data, labels):
        out = model(data)
        return torch.nn.functional.cross_entropy(out, labels)

    def main():
        from lockstep.sandbox.device import emulated_gpus, home
        with emulated_gpus(2):
            model = torch.nn.Linear(3, 2).to("cuda:1")
            data = torch.ones(4, 3).cuda(1)
            labels = torch.tensor([0, 1, 1, 0]){move}
            loss = train(model, data, labels)
            loss.backward()
            return [str(loss.device), str(model.weight.grad.device), home(model.weight.grad).sum().item()]
"""


RANKS = """
    import os, torch, torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    def main():
        from lockstep.sandbox.device import emulated_gpus, home
        with emulated_gpus(2):
            device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
            torch.cuda.set_device(device)
            dist.init_process_group({backend}device_id=device)
            model = DistributedDataParallel(torch.nn.Linear(3, 1).to(device), device_ids=[device.index])
            model(torch.full((1, 3), float(dist.get_rank()), device=device)).sum().backward()
            seen = torch.ones(1, device=device)
            dist.all_reduce(seen)
            dist.destroy_process_group()
            return [str(device), seen.item(), home(model.module.weight.grad).tolist()]
"""


@pytest.mark.parametrize(
    "backend",
    [
        pytest.param('"nccl", ', id="nccl"),
        pytest.param('"cpu:gloo,cuda:nccl", ', id="for each kind of device"),
        pytest.param("", id="left to torch"),
        pytest.param("None, ", id="none"),
    ],
)
def test_ranks_train_on_a_gpu_each(backend: str, box: Box) -> None:
    outcome = run(box, RANKS.replace("{backend}", backend), ranks=2)
    assert [rank.values.get("seen") for rank in outcome.ranks] == [
        ["cuda:0", 2.0, [[0.5, 0.5, 0.5]]],
        ["cuda:1", 2.0, [[0.5, 0.5, 0.5]]],
    ]


@pytest.mark.parametrize("name", ["nccl_", "ncll", "cpu:gloo,cuda:nccl_"])
def test_a_backend_that_torch_does_not_know_is_refused(name: str, box: Box) -> None:
    assert "Unknown" in message(run(box, RANKS.replace("{backend}", f"{name!r}, "), ranks=2))


ADDED_UP = """
    def added_up():
        told = []
        for device in ("cuda", "cpu"):
            total = torch.ones(1, device=device)
            try:
                dist.all_reduce(total)
                told.append(total.item())
            except RuntimeError as error:
                told.append(str(error))
        return told
"""
"""What becomes of a sum over all ranks, on a GPU and on the CPU."""
SUMS = (
    """
    import torch, torch.distributed as dist

    def main():
        from lockstep.sandbox.device import emulated_gpus
        with emulated_gpus(2):
            dist.init_process_group({backend})
            {more}
            objects = [None, None]
            dist.all_gather_object(objects, dist.get_rank())
            dist.barrier()
            told = added_up()
            dist.destroy_process_group()
            return [objects, told]
"""
    + ADDED_UP
)
REFUSED = "No backend type associated with device type cpu"


@pytest.mark.parametrize(
    ("backend", "more", "of_the_cpu"),
    [
        pytest.param('"nccl"', "", REFUSED, id="nccl"),
        pytest.param('"NCCL"', "dist.new_group()", REFUSED, id="a group of the same kind"),
        pytest.param('"nccl"', 'dist.new_group(backend="gloo")', 2.0, id="a second group for the cpu"),
        pytest.param('"cpu:gloo,cuda:nccl"', "", 2.0, id="for each kind of device"),
        pytest.param('"gloo"', "", 2.0, id="gloo"),
        pytest.param("", "", 2.0, id="left to torch"),
    ],
)
def test_nccl_takes_no_tensor_of_the_cpu(backend: str, more: str, of_the_cpu: str | float, box: Box) -> None:
    source = SUMS.replace("{backend}", backend).replace("{more}", more)
    outcome = run(box, source, ranks=2)
    assert [rank.values.get("seen") for rank in outcome.ranks] == [[[0, 1], [2.0, of_the_cpu]]] * 2


def test_it_works_in_the_sandbox(box: Box) -> None:
    device, gradient, total = seen(box, STUDENT.format(move=".to(data.device)"))  # type: ignore[misc, call-overload]
    assert (device, gradient) == ("cuda:1", "cuda:1")
    assert abs(total) < 1e-6


LAZY = """
    import torch

    def main():
        from lockstep.sandbox.device import emulated_gpus
        with emulated_gpus(1):
            layer = torch.nn.LazyLinear(2).to(torch.float64).to("cuda")
            result = layer(torch.rand(1, 3, device="cuda", dtype=torch.float64))
            return [str(result.device), list(result.shape)]
"""


def test_a_lazy_module_takes_a_type_where_methods_are_replaced(box: Box) -> None:
    assert seen(box, LAZY) == ["cuda:0", [1, 2]]


def test_a_fault_in_the_sandbox_names_the_line_and_both_devices(box: Box) -> None:
    text = message(run(box, STUDENT.format(move="")))
    assert "got target is on cpu, different from other tensors on cuda:1" in text
    assert "student.py, line 6, in train" in text


# Libraries that hold torch's own functions


def test_whatever_a_library_took_from_torch_knows_the_gpus_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with emulated_gpus():
        pass  # looks at what has been imported by now
    late = types.ModuleType("torchmetrics.made_up")
    late.zeros = torch.zeros  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, late.__name__, late)
    for _ in range(2):
        with emulated_gpus():
            assert late.zeros(2, device="cuda").device == torch.device("cuda", 0)
        assert late.zeros is torch.zeros


@pytest.mark.parametrize("server", [Server.FULL, Server.LATE], ids=lambda server: server.name.lower())
def test_a_rank_need_not_look_for_them_where_its_server_has(server: Server, box: Box) -> None:
    source = """
        from lockstep.sandbox.device import tensors
        from lockstep.sandbox.lately import imported_since

        def main():
            since = imported_since(tensors._looked_at)
            return [name for name in since if name.startswith("torch")], len(tensors._captured) > 0
    """
    assert seen(box, source, server=server) == [[], True]
