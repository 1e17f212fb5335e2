"""Old spellings of torch, torchvision, NumPy, matplotlib and Pillow, brought up to date as they are used.

What courses and blog posts of some years ago write, and these libraries have dropped since; and what asks for a screen.
`EXPLAINED[key]` is the sentence for the student about each key that is noted.

Source: the release notes of PyTorch 2.2 and 2.7, torchvision 0.10 to 0.15, NumPy 1.20 to 2.4, matplotlib 3.6 to 3.9 and
Pillow 10.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from lockstep.sandbox import after_import
from lockstep.sandbox.after_import import Tell, answer, teller

EXPLAINED: Mapping[str, str] = {
    "verbose": "Schedulers of torch.optim have no verbose=... any more: print scheduler.get_last_lr() yourself.",
    "resample": (
        "Transforms of torchvision have no resample=... and fillcolor=... any more: write interpolation=... and "
        "fill=..."
    ),
    "value_range": "make_grid and save_image have no range=... any more: write value_range=...",
    "numpy": (
        "NumPy has dropped some names: np.Inf is np.inf, np.NaN is np.nan, np.float is float, np.float_ is np.float64, "
        "np.product is np.prod, np.trapz is np.trapezoid."
    ),
    "style": "matplotlib's styles seaborn-... are called seaborn-v0_8-... since 3.6.",
    "get_cmap": "matplotlib.cm.get_cmap was removed: write plt.get_cmap(name) or matplotlib.colormaps[name].",
    "window_title": (
        "figure.canvas.set_window_title was removed from matplotlib: figure.canvas.manager has it now."
    ),
    "backend": (
        "matplotlib.use('TkAgg') and its like need a screen, and where this is graded there is none: it was drawn "
        "without. Leave that line out, matplotlib finds out by itself what there is."
    ),
    "antialias": "Pillow has dropped Image.ANTIALIAS: it is called Image.LANCZOS.",
}


def install(note: Callable[..., None]) -> None:
    """Translate old spellings of each library once it is imported."""
    tell = teller(note, "library")

    for name, modernise in (
        ("numpy", _numpy),
        ("torch.optim.lr_scheduler", _schedulers),
        ("torchvision.transforms.transforms", _transforms),
        ("torchvision.utils", _grids),
        ("matplotlib.style", _styles),
        ("matplotlib.cm", _colours),
        ("matplotlib.backend_bases", _windows),
        ("matplotlib.pyplot", _screens),
        ("PIL.Image", _images),
    ):
        after_import.change(name, functools.partial(modernise, tell=tell))


def _numpy(numpy: Any, tell: Tell) -> None:
    old = dict.fromkeys(("Inf", "Infinity", "infty", "PINF"), numpy.inf)
    old |= {"NINF": -numpy.inf, "NaN": numpy.nan, "NAN": numpy.nan}
    old |= {"float": float, "int": int, "object": object, "complex": complex, "str": str}
    old |= {
        "float_": numpy.float64,
        "complex_": numpy.complex128,
        "unicode_": numpy.str_,
        "string_": numpy.bytes_,
    }
    old |= {"product": numpy.prod, "cumproduct": numpy.cumprod, "alltrue": numpy.all, "sometrue": numpy.any}
    old |= {"round_": numpy.round, "trapz": numpy.trapezoid, "in1d": numpy.isin, "row_stack": numpy.vstack}
    old |= {"asscalar": lambda array: array.item()}
    answer(numpy, old, lambda: tell("numpy"))


def _schedulers(module: Any, tell: Tell) -> None:
    classes: list[Any] = [cls for cls in vars(module).values() if inspect.isclass(cls)]
    for cls in classes:
        if issubclass(cls, module.LRScheduler) and "__init__" in vars(cls):
            cls.__init__ = _quiet(cls.__init__, tell)


def _quiet(construct: Callable[..., None], tell: Tell) -> Callable[..., None]:
    """The constructor of a scheduler, without `verbose`, which was the last of its arguments."""
    known = inspect.signature(construct).parameters

    @functools.wraps(construct)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        if "verbose" in kwargs and "verbose" not in known:
            tell("verbose")
            del kwargs["verbose"]
        elif len(args) == len(known) and isinstance(args[-1], bool):
            tell("verbose")
            args = args[:-1]
        construct(self, *args, **kwargs)

    return init


def _transforms(module: Any, tell: Tell) -> None:
    for name in ("RandomAffine", "RandomRotation"):
        cls = getattr(module, name)
        cls.__init__ = _renaming(
            cls.__init__, {"resample": "interpolation", "fillcolor": "fill"}, lambda: tell("resample")
        )


def _grids(module: Any, tell: Tell) -> None:
    for name in ("make_grid", "save_image"):
        function = _renaming(getattr(module, name), {"range": "value_range"}, lambda: tell("value_range"))
        setattr(module, name, function)


def _renaming(
    function: Callable[..., Any], names: Mapping[str, str], tell: Callable[[], None]
) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for old in names.keys() & kwargs.keys():
            tell()
            value = kwargs.pop(old)
            # False and None stood for what is the default.
            if value is not None and value is not False:
                kwargs[names[old]] = value
        return function(*args, **kwargs)

    return call


def _styles(style: Any, tell: Tell) -> None:
    today = {name.replace("-v0_8", ""): name for name in style.library if name.startswith("seaborn-v0_8")}
    style.library.update({old: style.library[name] for old, name in today.items()})
    use = style.use

    @functools.wraps(use)
    def using(name: Any) -> None:
        if isinstance(name, str) and name in today:
            tell("style")
        use(name)

    style.use = using


def _colours(module: Any, tell: Tell) -> None:
    def get_cmap(name: Any = None, lut: int | None = None) -> Any:
        tell("get_cmap")
        from matplotlib import pyplot

        return pyplot.get_cmap(name, lut)

    answer(module, {"get_cmap": get_cmap}, lambda: None)


def _windows(module: Any, tell: Tell) -> None:
    # There are no windows here.
    module.FigureCanvasBase.set_window_title = lambda self, title: tell("window_title")


def _screens(pyplot: Any, tell: Tell) -> None:
    switch = pyplot.switch_backend

    @functools.wraps(switch)
    def switching(backend: Any) -> None:
        try:
            switch(backend)
        except ImportError:
            tell("backend")
            switch("agg")

    pyplot.switch_backend = switching


def _images(module: Any, tell: Tell) -> None:
    answer(module, {"ANTIALIAS": module.LANCZOS}, lambda: tell("antialias"))
