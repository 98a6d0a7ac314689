"""What a loop of plain PyTorch does beside an engine, without effect."""

from __future__ import annotations

import warnings
import weakref
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from castor._library import shim

_told: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()
_watching = False


def watch_optimizers() -> None:
    """From now on a step of an optimizer of PyTorch's over parameters that an
    engine has is told once, as a warning: it does nothing."""
    global _watching
    if not _watching:
        register_optimizer_step_pre_hook(_before_step)
    _watching = True


def _before_step(optimizer: torch.optim.Optimizer, *_: Any) -> None:
    if optimizer in _told or getattr(optimizer, "is_the_engines", False):
        return
    parameters = (p for group in optimizer.param_groups for p in group["params"])
    if not any(shim.is_managed(p) for p in parameters):
        return
    _told.add(optimizer)
    warnings.warn(
        f"castor: {type(optimizer).__name__}.step() does nothing for parameters that "
        "an engine has, nor do its learning rate and clip_grad_norm_: engine.step() "
        'updates them, with "optimizer", "scheduler" and "gradient_clipping" of the '
        "configuration, or the rate that it is given",
        stacklevel=4,
    )
