"""What a step has done so far, so that an engine can do it again by itself."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import torch

# Where a tensor stands in nested mappings and sequences.
_Path = tuple[Any, ...]


def _tensors(value: Any, path: _Path = ()) -> Iterator[tuple[_Path, torch.Tensor]]:
    """The tensors in `value`, with where each stands in it."""
    if isinstance(value, torch.Tensor):
        yield path, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _tensors(item, (*path, key))
    elif isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            yield from _tensors(item, (*path, i))


def _at(value: Any, path: _Path) -> Any:
    for key in path:
        value = value[key]
    return value


class Loss(NamedTuple):
    """Where in the output of its pass a loss was, and its backward's scale."""

    path: _Path
    scale: float | None


class Pass:
    """A forward pass, by what it was called with, and its loss.

    Inputs are kept by reference. Outputs are not kept, since they would take
    memory: of those that can be a loss it is known where they stood.
    """

    def __init__(
        self, function: Callable[..., Any], args: Any, kwargs: Any, output: Any
    ) -> None:
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.loss: Loss | None = None
        self._inputs = [(t, t._version) for _, t in _tensors((args, kwargs))]
        self._outputs = [
            (path, weakref.ref(tensor), tensor._version)
            for path, tensor in _tensors(output)
            if tensor.grad_fn is not None
        ]

    def keep_loss(self, loss: torch.Tensor, scale: float | None) -> None:
        """`loss` goes backward. One that was not in the pass's output, or was
        written to since, was computed elsewhere, which nobody here can do
        again."""
        for path, tensor, version in self._outputs:
            if tensor() is loss and loss._version == version:
                self.loss = Loss(path, scale)

    def forget_graph(self) -> None:
        """Frees what the outputs that still live keep for a backward."""
        for _, reference, _ in self._outputs:
            tensor = reference()
            if tensor is not None and tensor._base is None:  # no view
                tensor.detach_()

    def can_be_repeated(self) -> bool:
        """Whether its loss is known, and its inputs are what they were."""
        return self.loss is not None and all(
            tensor._version == version for tensor, version in self._inputs
        )

    def loss_in(self, output: Any) -> torch.Tensor:
        """The loss in what the pass gave when it was done again."""
        assert self.loss is not None
        loss: torch.Tensor = _at(output, self.loss.path)
        return loss
