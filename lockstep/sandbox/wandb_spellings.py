"""Old spellings of Weights & Biases, brought up to date as they are used, as `lightning_spellings` does for Lightning.

Source: the change log of wandb's releases 0.9 to 0.31.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from lockstep.sandbox import after_import
from lockstep.sandbox.after_import import Tell, teller

PACKAGE = "wandb"
EXPLAINED: Mapping[str, str] = {
    "wandb_argument": (
        "W&B no longer takes an argument or a setting that it was given: leave out quiet of finish, sync of log, goal "
        "of define_metric, magic of init, start_method of Settings."
    ),
    "wandb_name": (
        "W&B no longer has a name that was used: run.join() is run.finish(), run.get_url() is run.url, run.save() "
        "without the name of a file is left out, and init makes an id by itself, which wandb.util.generate_id() did."
    ),
}
# What older releases took, by the function or method that did.
_DROPPED: Mapping[str, frozenset[str]] = {
    "finish": frozenset(("quiet",)),
    "log": frozenset(("sync",)),
    "define_metric": frozenset(("goal",)),
    "init": frozenset(("magic",)),
    "Settings": frozenset(("start_method", "_start_method")),
}


def install(note: Callable[..., None]) -> None:
    """Translate old spellings once W&B is imported; costs nothing before."""
    tell = teller(note, PACKAGE)

    after_import.change(PACKAGE, lambda package: _modernise(package, tell))


def _modernise(package: Any, tell: Tell) -> None:
    run = package.sdk.wandb_run.Run
    settings = package.Settings
    package.init = _without("init", _with_settings(package.init, tell), tell)
    package.finish = _without("finish", package.finish, tell)
    settings.__init__ = _without("Settings", settings.__init__, tell)
    for name in ("finish", "log", "define_metric"):
        setattr(run, name, _without(name, getattr(run, name), tell))
    save = run.save

    @functools.wraps(save)
    def save_any(self: Any, *args: Any, **kwargs: Any) -> Any:
        if args or kwargs:
            return save(self, *args, **kwargs)
        # It sent a name that had been changed, which is sent at once now.
        return tell("wandb_name")

    run.save = save_any
    run.join = _renamed(run.finish, tell)
    run.get_url = _renamed(lambda self: self.url, tell)
    run.get_project_url = _renamed(lambda self: self.project_url, tell)
    package.util.generate_id = _renamed(package.sdk.lib.runid.generate_id, tell)


def _without(name: str, original: Callable[..., Any], tell: Tell) -> Callable[..., Any]:
    """A function that leaves out what it no longer knows."""

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        return original(*args, **_left(name, kwargs, tell))

    return call


def _with_settings(init: Callable[..., Any], tell: Tell) -> Callable[..., Any]:
    """`wandb.init`, whose settings may be a dict."""

    @functools.wraps(init)
    def call(*args: Any, settings: Any = None, **kwargs: Any) -> Any:
        given = _left("Settings", settings, tell) if isinstance(settings, dict) else settings
        return init(*args, settings=given, **kwargs)

    return call


def _left(name: str, given: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    left = {key: value for key, value in given.items() if key not in _DROPPED[name]}
    if len(left) < len(given):
        tell("wandb_argument")
    return left


def _renamed(function: Callable[..., Any], tell: Tell) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        tell("wandb_name")
        return function(*args, **kwargs)

    return call
