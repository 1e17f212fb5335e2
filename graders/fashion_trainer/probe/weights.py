"""What becomes of the weights of a script's networks: which values they have, who writes to them, what is cleared."""

from __future__ import annotations

import hashlib
import weakref
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.optim.optimizer import register_optimizer_step_post_hook

from lockstep.sandbox.probing import plain_tensor
from lockstep.wire import Json

from .wrapped import unwrapped

MAX_NETWORKS = 8


@dataclass
class _Network:
    """A network that backward came through, and the last of its weights that learn, by which the rest is judged."""

    module: nn.Module
    began: bytes | None
    version: int | None
    last: torch.Tensor | None
    call: dict[str, Json] | None = None
    stands: str = "first"
    stepped: bool = False
    left: bytes | None = None


class Weights:
    """Watches every network and every optimizer that is made from now on."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        # By id, since tensors compare by element. A copy's weights are never registered, only its maker's were.
        self._made: dict[int, weakref.ref[torch.Tensor]] = {}
        self._networks: dict[int, _Network] = {}
        self._more = False
        register_module_parameter_registration_hook(lambda module, name, weight: self._registered(weight))
        register_optimizer_step_post_hook(lambda optimizer, args, kwargs: self._stepped(optimizer))

    def note(self, call: dict[str, Json], module: nn.Module) -> None:
        """Note at a call which weights it was made with, by number, and whether these are those of a copy."""
        digest = _digest(module)
        call["weights"] = None if digest is None else self._numbers.setdefault(digest, len(self._numbers))
        # Functional code puts plain tensors in their place for a while.
        made = {
            self._was_registered(weight) for weight in module.parameters() if type(weight) is nn.Parameter
        }
        whole = all(type(weight) is nn.Parameter for weight in module.parameters())
        call["copied"] = not made.pop() if whole and len(made) == 1 else None

    def passed_back(self, call: dict[str, Json], module: nn.Module) -> None:
        """Look at the gradients as backward comes through a call: nothing of this pass is in them yet."""
        network = self._networks.get(id(module))
        if network is None:
            if len(self._networks) == MAX_NETWORKS:
                self._more = True
                return
            learning = [weight for weight in module.parameters() if weight.requires_grad and weight.is_leaf]
            last = learning[-1] if learning else None
            network = _Network(module, _digest(module), _version(module), last)
            self._networks[id(module)] = network
            if last is not None:
                last.register_post_accumulate_grad_hook(lambda weight: self._accumulated(network, weight))
        network.call = call
        if network.last is not None and network.left is not None:
            found = _gradient(network.last)
            network.stands = "gone" if found is None else "kept" if found == network.left else "changed"

    def _accumulated(self, network: _Network, weight: torch.Tensor) -> None:
        """Note what a gradient was added to. torch.autograd.grad adds to none: it hands the gradient out."""
        if network.call is not None:
            network.call |= {"gradient": network.stands, "stepped": network.stepped}
        network.call, network.stepped, network.left = None, False, _gradient(weight)

    def _registered(self, weight: object) -> None:
        if isinstance(weight, torch.Tensor):
            self._made[id(weight)] = weakref.ref(weight)

    def _was_registered(self, weight: torch.Tensor) -> bool:
        made = self._made.get(id(weight))
        return made is not None and made() is weight

    def _stepped(self, optimizer: torch.optim.Optimizer) -> None:
        own = {id(weight) for group in optimizer.param_groups for weight in group["params"]}
        for network in self._networks.values():
            network.stepped |= id(network.last) in own

    def written(self) -> bool | None:
        """Whether anybody wrote to a network since backward first came through it; None where that cannot be told.

        An optimizer that steps writes, at a rate of 0 as well.
        """
        if self._more or not self._networks:
            return None
        return any(
            one.version is None or one.version != _version(one.module) or one.began != _digest(one.module)
            for one in self._networks.values()
        )


def _digest(module: nn.Module) -> bytes | None:
    """Stands for a network's weights; None where it has none, or one cannot be read."""
    digest, weights = hashlib.blake2b(digest_size=16), list(module.parameters())
    for weight in weights:
        value = plain_tensor(unwrapped(weight))
        if value is None:
            return None
        digest.update(value.tobytes())
    return digest.digest() if weights else None


def _gradient(weight: torch.Tensor) -> bytes | None:
    """A weight's gradient; None where there is none, or nothing but zeros."""
    value = None if weight.grad is None else plain_tensor(weight.grad)
    return None if value is None or not value.any() else value.tobytes()


def _version(module: nn.Module) -> int | None:
    """How often a network's weights were written to; None where torch does not count it."""
    try:
        return sum(weight._version for weight in module.parameters())
    except RuntimeError:
        return None
