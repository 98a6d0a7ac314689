"""Generation on several ranks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from torch import nn

from castor._library import shim

_ASKED = "_has_unfinished_sequences"  # of transformers' GenerationMixin


def generating_modules(model: nn.Module) -> list[nn.Module]:
    """Those whose `generate` may be called."""
    return [module for module in model.modules() if hasattr(type(module), _ASKED)]


@contextlib.contextmanager
def meeting_at_each_token(
    modules: list[nn.Module], meet: Callable[[], None]
) -> Iterator[None]:
    """Inside, `generate(synced_gpus=True)` of these modules calls `meet` before
    it asks PyTorch's process group whether all ranks' sequences have ended.

    There a rank waits for the others by itself. One that has failed does not
    come, and is waited for where `meet` says that it has.
    """
    for module in modules:
        setattr(module, _ASKED, _after(meet, getattr(module, _ASKED)))
    try:
        yield
    finally:
        for module in modules:
            delattr(module, _ASKED)


def _after(meet: Callable[[], None], ask: Callable[..., bool]) -> Callable[..., bool]:
    def ask_after(
        this_peer_finished: bool, synced_gpus: bool, *more: Any, **named: Any
    ) -> bool:
        if not synced_gpus:
            return ask(this_peer_finished, synced_gpus, *more, **named)
        meet()
        # What asking takes is not the device's: nothing is refused from here on.
        shim.count_for_entered(False)
        try:
            return ask(this_peer_finished, synced_gpus, *more, **named)
        finally:
            shim.count_for_entered(True)

    return ask_after
