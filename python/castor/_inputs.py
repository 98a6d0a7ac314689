"""What goes into a model and what comes out."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, Callable

import torch


def copied(
    value: Any, floats: torch.dtype | None, device: torch.device | None = None
) -> Any:
    """`value` with a copy of each tensor in its mappings and sequences, on
    `device`, if it is given; those of floating-point numbers in the type
    `floats`, if it is given."""
    if isinstance(value, torch.Tensor):
        copy = value.clone() if device is None else value.to(device, copy=True)
        if floats is not None and copy.dtype.is_floating_point:
            copy = copy.to(floats)
        return copy
    if type(value) is dict:
        return {key: copied(item, floats, device) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(copied(item, floats, device) for item in value)
    return value


def kind(value: Any) -> str:
    """The types of the tensors in `value`, where they are, and how many dimensions
    they have: a "*" for each."""
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}[{'x'.join('*' * value.dim())}]"
    if type(value) is dict:
        items = (f"{key}={kind(item)}" for key, item in value.items())
        return f"({', '.join(items)})"
    if type(value) in (list, tuple):
        return f"({', '.join(kind(item) for item in value)})"
    return type(value).__name__


def extents(value: Any) -> list[int]:
    """The sizes of all dimensions of the tensors in `value`, in the order of the
    "*" of `kind`."""
    if isinstance(value, torch.Tensor):
        return list(value.shape)
    if type(value) is dict:
        value = list(value.values())
    if type(value) in (list, tuple):
        return [extent for item in value for extent in extents(item)]
    return []


def description(value: Any) -> str:
    """The shapes and types of the tensors in `value`, and where they are."""
    names = kind(value).split("*")
    sizes = [str(extent) for extent in extents(value)]
    return "".join(map("".join, itertools.zip_longest(names, sizes, fillvalue="")))


def call_with(model: Callable[..., Any], batch: Any) -> Any:
    """The call of `model` with a mapping or a sequence of its arguments."""
    if isinstance(batch, Mapping):
        return model(**batch)
    if isinstance(batch, (list, tuple)):
        return model(*batch)
    return model(batch)


def loss_of(output: Any) -> torch.Tensor:
    """The loss in a model's output: its `loss`, its first element or itself.

    Raises:
        ValueError: there is none.
    """
    loss = getattr(output, "loss", None)
    if loss is None and isinstance(output, Mapping):
        loss = output.get("loss")
    if loss is None and isinstance(output, (list, tuple)) and output:
        loss = output[0]
    if loss is None:
        loss = output
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
        raise ValueError(
            "castor: the model gives no loss of one element; give it labels, or "
            "compute a loss and call engine.backward"
        )
    return loss
