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

from lockstep.sandbox.device.machine import Machine
from lockstep.sandbox.device.marks import index_of, tensors_in
from lockstep.sandbox.lowprecision import LOW

_KEY = "AutocastCUDA"
# The last ones run in half precision as a whole with cuDNN; here they are made of many steps.
_HALF = (
    "_convolution _scaled_dot_product_flash_attention _thnn_fused_gru_cell _thnn_fused_lstm_cell "
    "addbmm addmm addmv addr baddbmm bmm chain_matmul conv1d conv2d conv3d conv_tbc conv_transpose1d "
    "conv_transpose2d.input conv_transpose3d.input convolution einsum gru_cell linalg_multi_dot "
    "linalg_vecdot linear lstm_cell matmul mm mv prelu rnn_relu_cell rnn_tanh_cell "
    "scaled_dot_product_attention lstm.input gru.input rnn_tanh.input rnn_relu.input"
).split()
_SINGLE = (
    "_upsample_bicubic2d_aa _upsample_bilinear2d_aa _upsample_nearest_exact1d "
    "_upsample_nearest_exact2d _upsample_nearest_exact3d acos asin binary_cross_entropy "
    "binary_cross_entropy_with_logits cdist cosh cosine_embedding_loss cosine_similarity dist erfinv "
    "exp expm1 frobenius_norm.dim group_norm hinge_embedding_loss huber_loss kl_div l1_loss "
    "layer_norm linalg_matrix_sqrth log log10 log1p log2 logsumexp margin_ranking_loss mse_loss "
    "multi_margin_loss multilabel_margin_loss native_layer_norm nll_loss nll_loss2d norm.Scalar "
    "norm.ScalarOpt_dim nuclear_norm nuclear_norm.dim pdist poisson_nll_loss pow.Scalar "
    "pow.Tensor_Scalar pow.Tensor_Tensor reciprocal renorm rms_norm rsqrt sinh smooth_l1_loss "
    "soft_margin_loss softplus tan triplet_margin_loss upsample_bicubic2d upsample_bilinear2d "
    "upsample_linear1d upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_trilinear3d"
).split()
# Compute in single precision where no dtype is asked for.
_SINGLE_BY_DTYPE = (
    "cumprod cumsum linalg_matrix_norm linalg_matrix_norm.str_ord linalg_vector_norm log_softmax.int "
    "prod prod.dim_int softmax.int sum sum.dim_IntList"
).split()
_WIDEST = (
    "addcdiv addcmul atan2 bilinear cross dot grid_sampler index_put scatter_add tensordot vdot"
).split()
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)


class Autocast:
    """Autocast for tensors of emulated GPUs."""

    def __init__(self, machine: Machine) -> None:
        self._library: Any = None
        self._cast_weights: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        real_enable, real_clear = torch.set_autocast_enabled, torch.clear_autocast_cache

        def set_autocast_enabled(*args: Any) -> None:
            # Of a device's name, which may be "cuda:0"; without one it is about the GPUs.
            kind = "cuda" if len(args) == 1 else str(args[0]).partition(":")[0]
            if kind == "cuda":
                self._install()
            real_enable(*args)
            if kind == "cpu":
                _spare_gpus(bool(args[-1]))
            if kind == "cuda":
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
        self._library = torch.library.Library("aten", "IMPL", _KEY)
        for name in (*_HALF, *_SINGLE, *_SINGLE_BY_DTYPE, *_WIDEST):
            packet, _, overload = name.partition(".")
            # A machine with GPUs may have its own, older, build of torch, which lacks the newest of them.
            if (operations := getattr(torch.ops.aten, packet, None)) is None:
                continue
            op = getattr(operations, overload or "default")
            self._library.impl(name, self._kernel(name, op), allow_override=True)

    def _kernel(self, name: str, op: Any) -> Callable[..., Any]:
        excluded = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, _KEY))
        half, widest, by_dtype = name in _HALF, name in _WIDEST, name in _SINGLE_BY_DTYPE
        dtype_at = next((at for at, a in enumerate(op._schema.arguments) if a.name == "dtype"), None)

        def kernel(*args: Any, **kwargs: Any) -> Any:
            with torch._C._ExcludeDispatchKeyGuard(excluded):
                if name == "binary_cross_entropy" and index_of(args[0]) >= 0:
                    raise RuntimeError(
                        "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
                        "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
                        "In this case, combine the two layers using "
                        "torch.nn.functional.binary_cross_entropy_with_logits\nor torch.nn.BCEWithLogitsLoss.  "
                        "binary_cross_entropy_with_logits and BCEWithLogits are\nsafe to autocast."
                    )
                if by_dtype:
                    if (
                        _low(args)
                        and kwargs.get("dtype") is None
                        and not any(isinstance(a, torch.dtype) for a in args)
                    ):
                        return op(*args[:dtype_at], **{**kwargs, "dtype": torch.float32})
                    return op(*args, **kwargs)
                if half:
                    dtype = torch.get_autocast_dtype("cuda")
                elif widest:
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
        return value.dtype in LOW and index_of(value) >= 0
    return isinstance(value, list | tuple) and any(_low(item) for item in value)


def _widest(value: Any) -> torch.dtype:
    """The widest floating type among the tensors, at least half."""
    if isinstance(value, torch.Tensor):
        return torch.float32 if value.dtype == torch.float32 else torch.get_autocast_dtype("cuda")
    if isinstance(value, list | tuple) and any(_widest(item) == torch.float32 for item in value):
        return torch.float32
    return torch.get_autocast_dtype("cuda")
