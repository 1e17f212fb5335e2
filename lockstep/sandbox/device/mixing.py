"""Which tensors of different devices an operation takes, and what torch says about the others.

The rules and texts are those of torch's CUDA build: element-wise operations let one 0-dim CPU tensor in,
indexing takes indices that are on the CPU, copies go anywhere; everything else wants one device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from lockstep.sandbox.device.marks import CPU, LOOSE, index_of, tensors_in

# Go from any device to any; the result is where the destination is.
_COPIES = frozenset(
    "copy_ copy fill_ fill _copy_from _copy_from_and_resize set_ resize_as_ _resize_output_ "
    "_has_compatible_shallow_copy_type".split()
)
_INDEXING = frozenset("index index_put index_put_ _index_put_impl_ _unsafe_index _unsafe_index_put".split())
# Element-wise through and through, though torch does not tag them so.
_ELEMENTWISE = frozenset(
    "where lerp lerp_ smooth_l1_loss binary_cross_entropy clamp clamp_ addcmul addcdiv "
    "addcmul_ addcdiv_ masked_fill masked_fill_ xlogy copysign bernoulli bernoulli_ "
    "mse_loss_backward smooth_l1_loss_backward binary_cross_entropy_backward _assert_async allclose isclose "
    "floor_divide floor_divide_ binary_cross_entropy_with_logits copysign_ heaviside_ rsub dist eq_ ne_ ge_ le_ gt_ "
    "lt_".split()
)
# Element-wise, but torch checks the devices of all their tensors, of numbers as well.
_CHECKED_ELEMENTWISE = frozenset(
    "clamp.Tensor clamp_.Tensor clamp_max.Tensor clamp_max_.Tensor clamp_min.Tensor clamp_min_.Tensor "
    "logaddexp.default logaddexp2.default gcd.default lcm.default nextafter.default equal.default "
    "isin.Tensor_Tensor normal.Tensor_Tensor".split()
)
# Lengths, which CUDA's kernels want on the CPU or bring there themselves.
_ANYWHERE = frozenset("input_lengths target_lengths lengths batch_sizes".split())
_STRICT = frozenset(
    "cat stack index_select embedding gather nll_loss_forward nll_loss2d_forward addmm".split()
)
# torch's own names of the checking functions differ by how a kernel is declared.
_UNSTRUCTURED = frozenset(
    "nll_loss2d_forward nll_loss2d_backward embedding_dense_backward index_select native_layer_norm "
    "native_layer_norm_backward native_batch_norm native_batch_norm_backward native_group_norm dot vdot bincount "
    "masked_select take put_ equal huber_loss roll flip multinomial histc native_dropout convolution_backward "
    "embedding_renorm_ grid_sampler_2d masked_scatter_ multi_margin_loss binary_cross_entropy_backward".split()
)


# What cuBLAS and CUDA's own kernels have in floating point alone, and how torch calls them.
_FLOATING = {
    "mm": "addmm_cuda",
    "addmm": "addmm_cuda",
    "bmm": "baddbmm_cuda",
    "baddbmm": "baddbmm_cuda",
    "dot": "dot",
    "avg_pool2d": "avg_pool2d_out_cuda_frame",
    "max_pool2d_with_indices": "max_pool2d_with_indices_out_cuda_frame",
}
_NUMBERS = {
    torch.int64: "Long",
    torch.int32: "Int",
    torch.int16: "Short",
    torch.int8: "Char",
    torch.uint8: "Byte",
}
_NUMBERS |= {torch.bool: "Bool"}


def device_name(index: int) -> str:
    """The name of a device as torch prints it."""
    return "cpu" if index < 0 else f"cuda:{index}"


def common_device(func: Any, args: Sequence[object], kwargs: dict[str, object]) -> int:
    """The device on which an operation with tensors of several devices runs.

    Raises RuntimeError (IndexError, ValueError where torch does) in torch's words when it does not take them.
    """
    name = func.overloadpacket.__name__
    if func.namespace == "c10d" or name.startswith(("_foreach_", "_fused_", "_amp_")):
        _check_lists(args)
        return _first_gpu(args)
    if name in _COPIES:
        return _settled(args[0])
    if name in _INDEXING:
        return _indexing(args, writes="put" in name)
    if name in ("_pack_padded_sequence", "_thnn_fused_lstm_cell", "lstm"):
        return _settled(args[0])
    named = _named(func, args, kwargs)
    if name in ("convolution", "_convolution", "convolution_overrideable", "_slow_conv2d_forward"):
        _refuse_convolution(named, args)
    if name in ("masked_fill", "masked_fill_"):
        _refuse_mask(named)
    if not named:
        return CPU
    if (overload := f"{name}.{func._overloadname}") in _CHECKED_ELEMENTWISE:
        return _checked(overload.removesuffix(".default").replace(".", "_"), named, numbers=True)
    if name == "mse_loss":
        return _elementwise(func, named, numbers=False)
    elementwise = name in _ELEMENTWISE or torch.Tag.pointwise in func.tags
    if elementwise:
        return _elementwise(func, named)
    return _checked(name, named, numbers=name in _STRICT)


def _settled(value: object) -> int:
    return index_of(value) if isinstance(value, torch.Tensor) else CPU


def _first_gpu(args: Sequence[object]) -> int:
    return next((index for tensor in tensors_in(args) if (index := index_of(tensor)) >= 0), CPU)


def _check_lists(args: Sequence[object]) -> None:
    """Lists of tensors go together place by place, and may each hold tensors of several devices."""
    lists = [list(tensors_in(arg)) for arg in args if isinstance(arg, list | tuple)]
    for row in zip(*(group for group in lists if group), strict=False):
        places = {index for tensor in row if tensor.dim() and (index := index_of(tensor)) != LOOSE}
        if len(places) > 1:
            _refuse_pair(max(places), min(places))


def _named(func: Any, args: Sequence[object], kwargs: dict[str, object]) -> list[tuple[str, torch.Tensor]]:
    """The tensors of a call with the names that torch gives the arguments."""
    found: list[tuple[str, torch.Tensor]] = []
    names = [argument.name for argument in func._schema.arguments]
    for name, value in [*zip(names, args, strict=False), *kwargs.items()]:
        if name in _ANYWHERE:
            continue
        found += [(name, tensor) for tensor in tensors_in([value]) if index_of(tensor) != LOOSE]
    return found


def _refuse_pair(first: int, second: int) -> None:
    raise RuntimeError(
        "Expected all tensors to be on the same device, but found at least two devices, "
        f"{device_name(first)} and {device_name(second)}!"
    )


def _refuse_argument(name: str, index: int, common: int, method: str) -> None:
    raise RuntimeError(
        f"Expected all tensors to be on the same device, but got {name} is on {device_name(index)}, different from "
        f"other tensors on {device_name(common)} (when checking argument in method {method})"
    )


def _elementwise(func: Any, named: Sequence[tuple[str, torch.Tensor]], *, numbers: bool = True) -> int:
    """One device, beside which 0-dim CPU tensors may be read but not written, where `numbers` may be at all."""
    written = {argument.name for argument in func._schema.arguments if argument.is_write}
    common = next(index for _, tensor in named if (index := index_of(tensor)) >= 0)
    for name, tensor in named:
        index = index_of(tensor)
        if index != common and (index >= 0 or tensor.dim() or name in written or not numbers):
            _refuse_pair(common, index)
    return common


def _checked(name: str, named: Sequence[tuple[str, torch.Tensor]], *, numbers: bool) -> int:
    """One device for all; the first tensor's is what the others are held against. `numbers`: for 0-dim ones, too."""
    if not numbers and not all(tensor.dim() for _, tensor in named):
        named = [(label, tensor) for label, tensor in named if tensor.dim() or index_of(tensor) >= 0]
    method = {"embedding": "index_select", "stack": "cat"}.get(name, name)
    # What torch calls for an embedding has names of its own for the arguments.
    names = {"weight": "self", "indices": "index"} if name == "embedding" else {}
    common = index_of(named[0][1])
    for label, tensor in named[1:]:
        if (index := index_of(tensor)) != common:
            prefix = (
                "wrapper_CUDA__" if method in _UNSTRUCTURED or method.startswith("_") else "wrapper_CUDA_"
            )
            _refuse_argument(names.get(label, label), index, common, f"{prefix}{method}")
    return common


def _indexing(args: Sequence[object], *, writes: bool) -> int:
    """Indices may be on the CPU, and anywhere to write by; values that are written as well, as a single number."""
    target = _settled(args[0])
    for tensor in tensors_in([args[1]]):
        if not writes and index_of(tensor) not in (target, CPU, LOOSE):
            raise RuntimeError(
                "indices should be either on cpu or on the same device as the indexed tensor "
                f"({device_name(target)})"
            )
    for value in args[2:3]:
        if isinstance(value, torch.Tensor) and index_of(value) not in (target, LOOSE):
            if not value.dim():
                continue
            _refuse_pair(max(target, index_of(value)), min(target, index_of(value)))
    return target


def refuse_whole_numbers(name: str, args: Sequence[object]) -> None:
    """Matrices of whole numbers are multiplied by the CPU alone."""
    kernel = _FLOATING.get(name)
    if kernel is None:
        return
    dtype = next(tensor.dtype for tensor in tensors_in(args))
    if dtype in _NUMBERS:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{_NUMBERS[dtype]}'")


def refuse_generator(index: int, wanted: int) -> None:
    """Random numbers are drawn where they are wanted."""
    found, expected = ("cpu" if place < 0 else "cuda" for place in (index, wanted))
    if found != expected:
        raise RuntimeError(f"Expected a '{expected}' device type for generator but found '{found}'")


def refuse_lengths(lengths: torch.Tensor) -> None:
    """Lengths of sequences that are packed belong on the CPU."""
    if index_of(lengths) >= 0:
        raise RuntimeError(
            f"'lengths' argument should be a 1D CPU int64 tensor, but got {lengths.dim()}D {lengths.device} Long tensor"
        )


def type_name(tensor: torch.Tensor) -> str:
    """`torch.cuda.FloatTensor` and its like, as torch's messages write a tensor's type."""
    name = _TYPES.get(tensor.dtype, "FloatTensor")
    return f"torch.cuda.{name}" if index_of(tensor) >= 0 else f"torch.{name}"


def _refuse_convolution(named: Sequence[tuple[str, torch.Tensor]], args: Sequence[object]) -> None:
    (_, data), *others = named
    for label, tensor in others:
        if index_of(tensor) == index_of(data):
            continue
        if index_of(tensor) >= 0 and index_of(data) >= 0:
            continue
        on_cpu = index_of(data) < 0
        if on_cpu and not _taken_by_mkldnn(data, others[0][1], args):
            transposed = len(args) > 6 and args[6] is True
            kernel = "slow_conv_transpose2d" if transposed else "__slow_conv2d_forward"
            _refuse_argument(label, index_of(tensor), index_of(data), f"wrapper_CUDA_{kernel}")
        dense = f" or input should be a MKLDNN tensor and {label} is a dense tensor" if on_cpu else ""
        raise RuntimeError(
            f"Input type ({type_name(data)}) and {label} type ({type_name(tensor)}) should be the same{dense} "
            f"(input is on {device_name(index_of(data))}, {label} is on {device_name(index_of(tensor))})"
        )


def _taken_by_mkldnn(data: torch.Tensor, weight: torch.Tensor, args: Sequence[object]) -> bool:
    """Whether torch would convolve these in another library's kernels, by its words about the weight's type."""
    groups = args[8] if len(args) > 8 else 1
    return groups != 1 or data.shape[0] > 1 or min(weight.shape[2:]) > 3 or data.numel() > 20480


def _refuse_mask(named: Sequence[tuple[str, torch.Tensor]]) -> None:
    places = {label: index_of(tensor) for label, tensor in named}
    if "mask" in places and places["mask"] != places.get("self", places["mask"]):
        raise RuntimeError(
            "expected self and mask to be on the same device, but got mask on "
            f"{device_name(places['mask'])} and self on {device_name(places['self'])}"
        )


_TYPES = {
    torch.float32: "FloatTensor",
    torch.float64: "DoubleTensor",
    torch.float16: "HalfTensor",
    torch.bfloat16: "BFloat16Tensor",
    torch.uint8: "ByteTensor",
    torch.int8: "CharTensor",
    torch.int16: "ShortTensor",
    torch.int32: "IntTensor",
    torch.int64: "LongTensor",
    torch.bool: "BoolTensor",
    torch.complex64: "ComplexFloatTensor",
    torch.complex128: "ComplexDoubleTensor",
}
