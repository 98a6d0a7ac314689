"""Gradients of a step for callbacks that look at them before its update.

The engine takes each gradient as it comes, so that `.grad` is None when a step's
micro batches are over. While a callback wants them, copies are kept in host memory:
the bytes of all gradients in fp32, which no budget counts.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
import transformers
from torch import nn

from castor._library import shim

# torch.nn.utils.clip_grad_norm_ adds it, too.
_CLIP_EPS = 1e-6


def wants_gradients(callbacks: list[Any]) -> bool:
    """Whether one of transformers' callbacks has an on_pre_optimizer_step."""
    plain = transformers.TrainerCallback.on_pre_optimizer_step
    return any(
        getattr(type(callback), "on_pre_optimizer_step", plain) is not plain
        for callback in callbacks
    )


class _Parts:
    """What one micro batch gives a parameter. It comes in parts where backward
    comes to the parameter several times: `.grad` then has grown, or is new."""

    def __init__(self) -> None:
        self._seen: Any = lambda: None
        self._copies: list[torch.Tensor] = []

    def note(self, gradient: torch.Tensor) -> None:
        copy = gradient.detach().to(torch.float32, copy=True)
        if self._seen() is gradient:
            self._copies[-1] = copy
        else:
            self._copies.append(copy)
        self._seen = weakref.ref(gradient)

    def sum(self) -> torch.Tensor:
        total = self._copies[0]
        for copy in self._copies[1:]:
            total += copy
        return total


class CallbackGradients:
    """Keeps the gradients of a step of this model, which is on the CPU."""

    def __init__(self, model: nn.Module) -> None:
        self._sums: dict[nn.Parameter, torch.Tensor] = {}
        self._parts: dict[nn.Parameter, _Parts] = {}
        trained: list[Any] = [p for p in model.parameters() if p.requires_grad]
        self._hooks = [
            p.register_post_accumulate_grad_hook(self._note) for p in trained
        ]
        self._model = model

    def close(self) -> None:
        """Keeps nothing any more."""
        for hook in self._hooks:
            hook.remove()
        self._sums, self._parts = {}, {}

    def begin_backward(self, micro_batch: int) -> None:
        """The backward pass of this micro batch of the step begins; of the first one
        again where the step is done again."""
        if micro_batch == 0:
            self._sums, self._parts = {}, {}
        self._add_parts()

    @contextlib.contextmanager
    def shown(self, scale: float, clipping: float, ranks: int) -> Iterator[None]:
        """Inside, `.grad` of each parameter has what the update is made of.

        Args:
            scale: what losses were multiplied by.
            clipping: the largest norm; 0: any.
            ranks: how many there are, whose gradients are added up. All of them
                call it together.

        Raises:
            RuntimeError: a gradient was written to, or replaced.
        """
        self._add_parts()
        trained = [p for p in self._model.parameters() if p.requires_grad]
        if ranks > 1:
            self._add_up(trained)
        if scale != 1:
            for total in self._sums.values():
                total /= scale
        self._clip(clipping)
        given = []
        for parameter, total in self._sums.items():
            gradient = total.to(parameter.dtype)
            parameter.grad = gradient
            given.append((parameter, gradient, gradient._version))
        self._sums = {}
        try:
            yield
            for parameter, gradient, version in given:
                if parameter.grad is not gradient or gradient._version != version:
                    raise RuntimeError(
                        "castor: on_pre_optimizer_step has changed a gradient, and "
                        "the engine updates with its own: .grad may only be read "
                        "there; a hook of register_post_accumulate_grad_hook may "
                        "change it"
                    )
        finally:
            for parameter, _, _ in given:
                parameter.grad = None

    def _note(self, parameter: torch.Tensor) -> None:
        gradient = parameter.grad
        if gradient is None:
            return
        shim.count_for_entered(False)  # it is the host's
        try:
            assert isinstance(parameter, nn.Parameter)
            self._parts.setdefault(parameter, _Parts()).note(gradient)
        finally:
            shim.count_for_entered(True)

    def _add_parts(self) -> None:
        for parameter, parts in self._parts.items():
            total = self._sums.get(parameter)
            self._sums[parameter] = (
                parts.sum() if total is None else total.add_(parts.sum())
            )
        self._parts = {}

    def _add_up(self, trained: list[nn.Parameter]) -> None:
        has = torch.tensor([int(p in self._sums) for p in trained])
        dist.all_reduce(has)
        for parameter, ranks in zip(trained, has.tolist()):
            if ranks == 0:
                continue
            if parameter not in self._sums:
                self._sums[parameter] = torch.zeros(parameter.shape)
            dist.all_reduce(self._sums[parameter])

    def _clip(self, clipping: float) -> None:
        if clipping <= 0 or not self._sums:
            return
        norms = [torch.linalg.vector_norm(total) for total in self._sums.values()]
        norm = torch.linalg.vector_norm(torch.stack(norms))
        factor = (clipping / (norm + _CLIP_EPS)).clamp(max=1.0)
        for total in self._sums.values():
            total *= factor
