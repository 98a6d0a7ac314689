"""What a loop of plain PyTorch, or another library, does beside an engine: without
effect, or in its way."""

from __future__ import annotations

import functools
import sys
import warnings
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn
from torch.nn.utils import clip_grad
from torch.optim import lr_scheduler
from torch.optim.optimizer import register_optimizer_step_pre_hook

from castor._library import shim

# Optimizers and schedules that were told of, and what else was.
_told: weakref.WeakSet[Any] = weakref.WeakSet()
_told_of: set[str] = set()
_watched: set[str] = set()
# A program's schedule has an effect where the program hands its rates on.
_rates_are_given = False


def watch_foreign() -> None:
    """From now on what PyTorch's optimizers, their schedules and clip_grad_norm_ do
    to parameters that an engine has is told once each, as a warning: nothing. A view
    of such a parameter for NumPy is an error, as is accelerator.prepare of them.
    """
    _once("optimizers", lambda: register_optimizer_step_pre_hook(_before_step))
    _once("schedules", _watch_schedules)
    _once("clipping", _watch_clipping)
    _once("numpy", _watch_numpy)
    if "accelerate" in sys.modules:
        _once("accelerate", _watch_accelerate)


def note_rate_is_given() -> None:
    """A program hands the engine learning rates, which its schedule may make."""
    global _rates_are_given
    _rates_are_given = True


def _once(what: str, watch: Callable[[], Any]) -> None:
    if what not in _watched:
        _watched.add(what)
        watch()


def _wrap(owner: Any, name: str, before: Callable[..., None]) -> None:
    """`before` gets the arguments of each call of owner.name, and what it does
    comes first."""
    original = getattr(owner, name, None)
    if original is None:  # another release's
        return

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        before(*args, **kwargs)
        return original(*args, **kwargs)

    setattr(owner, name, call)


def _has_managed(optimizer: Any) -> bool:
    if getattr(optimizer, "is_the_engines", False):
        return False
    groups = getattr(optimizer, "param_groups", [])
    return any(shim.is_managed(p) for group in groups for p in group["params"])


_INSTEAD = (
    'engine.step() updates them, with "optimizer", "scheduler" and '
    '"gradient_clipping" of the configuration, or the rate that it is given'
)


def _before_step(optimizer: torch.optim.Optimizer, *_: Any) -> None:
    if optimizer in _told or not _has_managed(optimizer):
        return
    _told.add(optimizer)
    warnings.warn(
        f"castor: {type(optimizer).__name__}.step() does nothing for parameters that "
        f"an engine has, nor do its learning rate and clip_grad_norm_: {_INSTEAD}",
        stacklevel=4,
    )


def _watch_schedules() -> None:
    for kind in (lr_scheduler.LRScheduler, lr_scheduler.ReduceLROnPlateau):
        if "step" in vars(kind):
            _wrap(kind, "step", _before_schedule)


def _before_schedule(schedule: Any, *_: Any, **__: Any) -> None:
    optimizer = getattr(schedule, "optimizer", None)
    if _rates_are_given or schedule in _told or optimizer in _told:
        return
    # Its first step is its constructor's.
    if not getattr(schedule, "_step_count", 1) or not _has_managed(optimizer):
        return
    _told.add(schedule)
    warnings.warn(
        f"castor: {type(schedule).__name__}.step() does nothing for parameters that an "
        f"engine has: {_INSTEAD}",
        stacklevel=3,
    )


def _watch_clipping() -> None:
    # Behind clip_grad_norm_, of which a program may have the name already.
    _wrap(clip_grad, "_clip_grads_with_norm_", _before_clipping)


def _before_clipping(parameters: Any, *_: Any, **__: Any) -> None:
    given: Iterable[Any] = (
        [parameters] if isinstance(parameters, torch.Tensor) else parameters
    )
    if "clipping" in _told_of or not isinstance(given, list):
        return
    if not any(p.grad is None and shim.is_managed(p) for p in given):
        return
    _told_of.add("clipping")
    warnings.warn(
        "castor: clip_grad_norm_ does nothing for parameters that an engine has, whose "
        'gradients are not in .grad: give "gradient_clipping" in the configuration; '
        "engine.gradient_norm is their norm before it",
        stacklevel=5,  # behind clip_grad_norm_ and its no_grad
    )


def _watch_numpy() -> None:
    _wrap(torch.Tensor, "numpy", _before_numpy)


def _before_numpy(tensor: torch.Tensor, *_: Any, **__: Any) -> None:
    if shim.is_entered() and shim.is_managed(tensor):  # it may be there
        raise RuntimeError(
            "castor: an array of NumPy over a parameter's memory, which moves: take "
            "one of a copy, weight.detach().clone().numpy()"
        )


def _watch_accelerate() -> None:
    accelerator: Any = getattr(sys.modules["accelerate"], "Accelerator", None)
    _wrap(accelerator, "prepare", _before_prepare)
    _wrap(accelerator, "prepare_model", _before_prepare)


def _before_prepare(_: Any, *given: Any, **__: Any) -> None:
    for each in given:
        of_model = isinstance(each, nn.Module) and any(
            shim.is_managed(p) for p in each.parameters()
        )
        if not of_model and not _has_managed(each):
            continue
        raise ValueError(
            f"castor: accelerator.prepare of a {type(each).__name__} whose parameters "
            "an engine has: the engine is model and optimizer, on all ranks; prepare "
            "the loader alone, and call engine(...), engine.backward(loss) and "
            "engine.step() in the place of accelerator.backward and optimizer.step"
        )
