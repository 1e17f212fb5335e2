"""What `torch.cuda` and `torch.accelerator` answer about the emulated GPUs."""

from __future__ import annotations

import functools
import re
import types
import uuid
from collections.abc import Callable
from typing import Any

import torch

from lockstep.sandbox.device.machine import Machine
from lockstep.sandbox.device.streams import generator_class, stream_and_event

NAME = "Emulated GPU"
CAPABILITY = (8, 0)
CLOCK = 1.41e9
# What torch.cuda.memory_stats() tells.
_STATS = (
    *(
        f"{kind}.{pool}.{figure}"
        for kind in (
            "allocation segment active inactive_split allocated_bytes reserved_bytes active_bytes "
            "inactive_split_bytes requested_bytes"
        ).split()
        for pool in ("all", "large_pool", "small_pool")
        for figure in ("allocated", "current", "freed", "peak")
    ),
    *"num_alloc_retries num_ooms num_sync_all_streams num_device_alloc num_device_free max_split_size".split(),
)
# Questions that need no GPU to be answered.
_HARMLESS = re.compile(
    r"tunableop|llocator|nabled|Version|etadata|BadFork|ArchFlags|Capturing|ublas|debug|cudnn|conv"
)


def patch_cuda(machine: Machine) -> None:
    """Replace the queries of `torch.cuda` and `torch.accelerator`, and whatever would start CUDA."""
    stream, event = stream_and_event(machine)
    answers: dict[str, Any] = {
        **_devices(machine),
        **_memory(machine),
        **_random(machine),
        **_streams(machine, stream),
        "Stream": stream,
        "ExternalStream": stream,
        "Event": event,
    }
    modules = (torch.cuda, torch.cuda.memory, torch.cuda.random, torch.cuda.streams)
    for name, answer in answers.items():
        for module in modules:
            if module is torch.cuda or name in vars(module):
                machine.patches.set(module, name, answer)
    machine.patches.set(torch, "Stream", stream)
    machine.patches.set(torch, "Event", event)
    machine.patches.set(torch, "Generator", generator_class(machine))
    machine.patches.set(torch.cuda.nccl, "is_available", lambda tensors: False)
    for name in ("mark", "range_push", "range_pop", "range_start", "range_end"):
        machine.patches.set(torch.cuda.nvtx, name, lambda *_, **__: 0)
    _patch_accelerator(machine, answers)


def _refuse(*_: Any, **__: Any) -> None:
    raise NotImplementedError(
        "the grader runs this on an emulated GPU, which does not know this call: it would start CUDA itself"
    )


def _devices(machine: Machine) -> dict[str, Any]:
    def set_device(device: Any) -> None:
        kind = torch.device(device) if isinstance(device, str) else device
        if isinstance(kind, torch.device) and kind.type == "cuda" and kind.index is None:
            raise ValueError(
                f"Expected a torch.device with a specified index or an integer, but got:{device}"
            )
        machine.current = machine.gpu(device)

    def exchange(index: int) -> int:
        old = machine.current
        if index >= 0:
            machine.current = machine.index(index)
        return old

    def known(device: Any) -> int:
        try:
            return machine.gpu(device)
        except torch.AcceleratorError:
            raise AssertionError("Invalid device id") from None

    def properties(device: Any = None) -> Any:
        index = known(device)
        major, minor = CAPABILITY
        return types.SimpleNamespace(
            name=NAME,
            major=major,
            minor=minor,
            total_memory=machine.memory.limit,
            uuid=str(uuid.UUID(int=index + 1)),
            L2_cache_size=40 << 20,
            multi_processor_count=108,
            max_threads_per_block=1024,
            shared_memory_per_block=48 << 10,
            shared_memory_per_block_optin=163 << 10,
            shared_memory_per_multiprocessor=164 << 10,
            regs_per_multiprocessor=65536,
            clock_rate=1_410_000,
            memory_clock_rate=1_215_000,
            memory_bus_width=5120,
            is_integrated=0,
            is_multi_gpu_board=0,
            warp_size=32,
            max_threads_per_multi_processor=2048,
            gcnArchName="",
        )

    def get_device_name(device: Any = None) -> str:
        known(device)
        return NAME

    def capability(device: Any = None) -> tuple[int, int]:
        known(device)
        return CAPABILITY

    def synchronize(device: Any = None) -> None:
        machine.clock.wait(machine.gpu(device), "torch.cuda.synchronize", explicit=True)

    return {
        "is_available": lambda: machine.count > 0,
        "device_count": lambda: machine.count,
        "_device_count_nvml": lambda: machine.count,
        "current_device": lambda: machine.current,
        "set_device": set_device,
        "_exchange_device": exchange,
        "_maybe_exchange_device": exchange,
        "get_device_properties": properties,
        "get_device_name": get_device_name,
        "get_device_capability": capability,
        "_sleep": lambda cycles: machine.enqueue(cycles / CLOCK),
        "CUDAGraph": _refuse,
        "graph": _refuse,
        "make_graphed_callables": _refuse,
        "cudart": _refuse,
        "can_device_access_peer": lambda device, peer_device: device != peer_device,
        "get_arch_list": lambda: ["sm_80"],
        "synchronize": synchronize,
        "is_bf16_supported": lambda including_emulation=True: True,
        "is_tf32_supported": lambda: True,
        "is_initialized": lambda: machine.used,
        "init": machine.touch,
        "_lazy_init": _refuse,
        "_is_in_bad_fork": lambda: False,
        "is_current_stream_capturing": lambda: False,
        "ipc_collect": lambda: None,
        "utilization": lambda device=None: 0,
        "memory_usage": lambda device=None: 0,
        "temperature": lambda device=None: 40,
        "power_draw": lambda device=None: 60_000,
        "clock_rate": lambda device=None: 1410,
    }


def _memory(machine: Machine) -> dict[str, Any]:
    memory = machine.memory

    def of(figures: Callable[[int], int]) -> Callable[..., int]:
        # Of what was never used nothing is asked, not even whether it is a GPU.
        return lambda device=None: figures(machine.gpu(device)) if machine.used else 0

    def reset(device: Any = None) -> None:
        index = machine.gpu(device)
        memory.peak[index] = memory.live[index]

    def info(device: Any = None) -> tuple[int, int]:
        index = machine.gpu(device)
        return max(0, memory.limit - memory.live[index]), memory.limit

    def stats(device: Any = None) -> dict[str, int]:
        index = machine.gpu(device)
        # What is not counted here is there as well, and 0.
        found = dict.fromkeys(_STATS, 0)
        for kind in ("allocated_bytes", "reserved_bytes", "active_bytes", "requested_bytes"):
            found |= {f"{kind}.all.current": memory.live[index], f"{kind}.all.peak": memory.peak[index]}
        return found

    def summary(device: Any = None, abbreviated: bool = False) -> str:
        index = machine.gpu(device)
        return f"{NAME} {index}: {memory.live[index]} bytes allocated, {memory.peak[index]} at most\n"

    live, peak = of(lambda index: memory.live[index]), of(lambda index: memory.peak[index])
    return {
        "memory_allocated": live,
        "memory_reserved": live,
        "memory_cached": live,
        "max_memory_allocated": peak,
        "max_memory_reserved": peak,
        "max_memory_cached": peak,
        "reset_peak_memory_stats": reset,
        "reset_max_memory_allocated": reset,
        "reset_max_memory_cached": reset,
        "reset_accumulated_memory_stats": lambda device=None: None,
        "mem_get_info": info,
        "memory_stats": stats,
        "memory_summary": summary,
        "memory_snapshot": lambda *_, **__: [],
        "empty_cache": lambda: None,
        "set_per_process_memory_fraction": lambda fraction, device=None: None,
        "list_gpu_processes": lambda device=None: "no processes are running",
    }


def _random(machine: Machine) -> dict[str, Any]:
    """One stream of random numbers serves the CPU and the GPUs, so that results are those of the CPU."""

    def seed(value: int) -> None:
        torch.default_generator.manual_seed(int(value))

    def set_state(new_state: torch.Tensor, device: Any = "cuda") -> None:
        torch.default_generator.set_state(new_state)

    def set_states(new_states: Any) -> None:
        for state in new_states:
            set_state(state)

    return {
        "manual_seed": seed,
        "manual_seed_all": seed,
        "seed": lambda: torch.default_generator.seed(),
        "seed_all": lambda: torch.default_generator.seed(),
        "initial_seed": lambda: torch.default_generator.initial_seed(),
        "get_rng_state": lambda device="cuda": torch.default_generator.get_state(),
        "set_rng_state": set_state,
        "get_rng_state_all": lambda: [torch.default_generator.get_state() for _ in range(machine.count)],
        "set_rng_state_all": set_states,
        "default_generators": tuple(torch.default_generator for _ in range(machine.count)),
    }


def _streams(machine: Machine, kind: Callable[..., Any]) -> dict[str, Any]:
    def current(device: Any = None) -> Any:
        return kind(device)

    def set_stream(stream: Any) -> None:
        machine.current = stream.device_index

    def stream_context(stream: Any) -> Any:
        return kind() if stream is None else stream

    return {
        "current_stream": current,
        "default_stream": current,
        "set_stream": set_stream,
        "stream": stream_context,
        "StreamContext": stream_context,
    }


def _patch_accelerator(machine: Machine, answers: dict[str, Any]) -> None:
    """`torch.accelerator` asks these functions."""

    def synchronize(index: int) -> None:
        machine.clock.wait(machine.index(index), "torch.accelerator.synchronize", explicit=True)

    c: dict[str, Any] = {
        **{
            name: _refuse
            for name in vars(torch._C)
            if name.startswith("_cuda_") and not _HARMLESS.search(name)
        },
        "_accelerator_getAccelerator": lambda: torch.device("cuda") if machine.count else None,
        "_accelerator_getDeviceIndex": answers["current_device"],
        "_accelerator_setDeviceIndex": answers["set_device"],
        "_accelerator_exchangeDevice": answers["_exchange_device"],
        "_accelerator_maybeExchangeDevice": answers["_exchange_device"],
        "_accelerator_getStream": answers["current_stream"],
        "_accelerator_setStream": answers["set_stream"],
        "_accelerator_synchronizeDevice": synchronize,
        "_accelerator_emptyCache": lambda: None,
        "_accelerator_emptyHostCache": lambda: None,
        "_accelerator_isAllocatorInitialized": lambda: True,
        "_accelerator_getMemoryInfo": answers["mem_get_info"],
        "_accelerator_resetPeakStats": answers["reset_peak_memory_stats"],
        "_accelerator_resetAccumulatedStats": lambda device=None: None,
        "_accelerator_hooks_device_count": answers["device_count"],
        "_accelerator_hooks_get_current_device": answers["current_device"],
        "_accelerator_hooks_set_current_device": answers["set_device"],
        "_accelerator_hooks_exchange_device": answers["_exchange_device"],
        "_accelerator_hooks_maybe_exchange_device": answers["_exchange_device"],
        "_cuda_getDeviceCount": answers["device_count"],
        "_cuda_getDevice": answers["current_device"],
        "_cuda_setDevice": answers["set_device"],
        "_cuda_synchronize": answers["synchronize"],
        "_cuda_init": _refuse,
    }
    for name, answer in c.items():
        if hasattr(torch._C, name):
            # Every name has a function of its own: torch._dynamo, imported in here, wants it so.
            machine.patches.set(torch._C, name, functools.partial(answer))
    for name in ("start", "stop"):
        machine.patches.set(torch.cuda.profiler, name, lambda: None)
    accelerator = torch.accelerator
    machine.patches.set(accelerator, "device_count", functools.partial(answers["device_count"]))
    machine.patches.set(accelerator, "is_available", functools.partial(answers["is_available"]))
    memory = torch.accelerator.memory
    for owner in (accelerator, memory):
        for name in (
            "memory_allocated max_memory_allocated memory_reserved max_memory_reserved memory_stats "
            "reset_peak_memory_stats empty_cache"
        ).split():
            machine.patches.set(owner, name, functools.partial(answers[name]))
