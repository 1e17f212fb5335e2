"""`torch.autocast("cuda")` on the emulated GPUs: the same operations in half precision as on CUDA.

torch's own kernels of autocast are there without a GPU, but look at tensors of real CUDA devices only. While
the emulation lasts, kernels in Python take their place, from the first autocast on.
https://docs.pytorch.org/docs/stable/amp.html#cuda-op-specific-behavior lists which operation goes where.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import overrides
from torch.overrides import TorchFunctionMode

from lockstep.sandbox.device_machine import Machine
from lockstep.sandbox.device_marks import index_of, tensors_in

_KEY = "AutocastCUDA"
_HALF = frozenset(
    "_convolution convolution conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d "
    "prelu addmm addmv addr matmul einsum mm mv linalg_vecdot linear addbmm baddbmm bmm chain_matmul "
    "linalg_multi_dot _thnn_fused_lstm_cell _thnn_fused_gru_cell lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell "
    "scaled_dot_product_attention _scaled_dot_product_flash_attention".split()
)
# Compute in single precision where no dtype is asked for.
_SINGLE_BY_DTYPE = frozenset(
    "prod softmax log_softmax cumprod cumsum linalg_vector_norm linalg_matrix_norm sum".split()
)
_WIDEST = frozenset(
    "addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put tensordot scatter_add".split()
)
# cuDNN runs these in half precision; here they are made of many steps, so that the whole is cast.
_RECURRENT = ("lstm.input", "gru.input", "rnn_tanh.input", "rnn_relu.input")
_SKIPPED = frozenset(
    "cudnn_convolution cudnn_convolution_transpose _cudnn_rnn _convolution.deprecated".split()
)
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)


class Autocast:
    """Autocast for tensors of emulated GPUs."""

    def __init__(self, machine: Machine) -> None:
        self._library: Any = None
        self._cast_weights: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        real_enable, real_clear = torch.set_autocast_enabled, torch.clear_autocast_cache

        def set_autocast_enabled(*args: Any) -> None:
            if args[0] == "cuda" or len(args) == 1:
                self._install()
            real_enable(*args)
            if args[0] == "cpu":
                _spare_gpus(bool(args[-1]))
            if args[0] == "cuda" or len(args) == 1:
                # Tensors of real GPUs bring the key along, those of the CPU do not.
                torch._C._dispatch_tls_set_dispatch_key_included(_KEY, bool(args[-1]))

        def clear_autocast_cache() -> None:
            self._cast_weights.clear()
            real_clear()

        machine.patches.set(torch, "set_autocast_enabled", set_autocast_enabled)
        machine.patches.set(torch, "clear_autocast_cache", clear_autocast_cache)

    def remove(self) -> None:
        """Give torch its own kernels back."""
        self._cast_weights.clear()
        if self._library is not None:
            self._library._destroy()

    def _install(self) -> None:
        if self._library is not None:
            return
        self._library = torch.library.Library("aten", "IMPL", _KEY)  # type: ignore[no-untyped-call]
        names = [
            name.removeprefix("aten::")
            for name in torch._C._dispatch_get_all_op_names()
            if name.startswith("aten::") and torch._C._dispatch_has_kernel_for_dispatch_key(name, _KEY)
        ]
        for name in [*names, *_RECURRENT]:
            if name in _SKIPPED:
                continue
            packet, _, overload = name.partition(".")
            op = getattr(getattr(torch.ops.aten, packet), overload or "default")
            self._library.impl(name, self._kernel(packet, op), allow_override=True)

    def _kernel(self, packet: str, op: Any) -> Callable[..., Any]:
        excluded = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, _KEY))
        half = packet in _HALF or f"{packet}.input" in _RECURRENT
        dtype_at = next((at for at, a in enumerate(op._schema.arguments) if a.name == "dtype"), None)

        def kernel(*args: Any, **kwargs: Any) -> Any:
            with torch._C._ExcludeDispatchKeyGuard(excluded):
                if packet == "binary_cross_entropy" and _low(args):
                    raise RuntimeError(
                        "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
                        "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
                        "In this case, combine the two layers using "
                        "torch.nn.functional.binary_cross_entropy_with_logits\nor torch.nn.BCEWithLogitsLoss.  "
                        "binary_cross_entropy_with_logits and BCEWithLogits are\nsafe to autocast."
                    )
                if packet in _SINGLE_BY_DTYPE:
                    if (
                        _low(args)
                        and kwargs.get("dtype") is None
                        and not any(isinstance(a, torch.dtype) for a in args)
                    ):
                        return op(*args[:dtype_at], **{**kwargs, "dtype": torch.float32})
                    return op(*args, **kwargs)
                if half:
                    dtype = torch.get_autocast_dtype("cuda")
                elif packet in _WIDEST:
                    if not _low((args, tuple(kwargs.values()))):
                        return op(*args, **kwargs)
                    dtype = _widest((args, tuple(kwargs.values())))
                else:
                    dtype = torch.float32
                return op(*self._cast(args, dtype), **{k: self._cast(v, dtype) for k, v in kwargs.items()})

        return kernel

    def _cast(self, value: Any, dtype: torch.dtype) -> Any:
        if isinstance(value, torch.Tensor):
            if value.dtype == dtype or value.dtype not in _FLOATS or index_of(value) < 0:
                return value
            return self._cast_tensor(value, dtype)
        if isinstance(value, list | tuple):
            return type(value)([self._cast(item, dtype) for item in value])
        return value

    def _cast_tensor(self, tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """Weights are cast once per autocast block, as CUDA's autocast does."""
        kept = (
            tensor.requires_grad
            and tensor.is_leaf
            and tensor.dtype == torch.float32
            and dtype != torch.float32
            and not tensor._is_view()
            and torch.is_autocast_cache_enabled()
        )
        if not kept:
            return tensor.to(dtype)
        found = self._cast_weights.get(id(tensor))
        if found is None or found[1].dtype != dtype:
            found = self._cast_weights[id(tensor)] = (tensor, tensor.to(dtype))
        return found[1]


class _SpareGpus(TorchFunctionMode):
    """`torch.autocast("cpu")` leaves tensors of GPUs alone, which torch's own kernels take for the CPU's."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not any(index_of(tensor) >= 0 for tensor in tensors_in((args, list(kwargs.values())))):
            return func(*args, **kwargs)
        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)):
            return func(*args, **kwargs)


def _spare_gpus(enabled: bool) -> None:
    """Start or end sparing the GPUs in this thread, whatever other modes lie above."""
    modes: Any = overrides
    above = []
    while torch._C._len_torch_function_stack():
        mode = modes._pop_mode()
        if isinstance(mode, _SpareGpus):
            break
        above.append(mode)
    for mode in reversed(above):
        modes._push_mode(mode)
    if enabled:
        modes._push_mode(_SpareGpus())


def _low(value: Any) -> bool:
    """Whether a tensor of an emulated GPU in half precision is among the arguments."""
    if isinstance(value, torch.Tensor):
        return value.dtype in (torch.float16, torch.bfloat16) and index_of(value) >= 0
    return isinstance(value, list | tuple) and any(_low(item) for item in value)


def _widest(value: Any) -> torch.dtype:
    """The widest floating type among the tensors, at least half."""
    if isinstance(value, torch.Tensor):
        return torch.float32 if value.dtype == torch.float32 else torch.get_autocast_dtype("cuda")
    if isinstance(value, list | tuple) and any(_widest(item) == torch.float32 for item in value):
        return torch.float32
    return torch.get_autocast_dtype("cuda")
