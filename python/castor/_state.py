"""A managed model's values, for who wants all of them."""

from __future__ import annotations

import os
from typing import Any

import torch

from castor._managed import Managed, own
from castor._ranks import on_all_ranks


def state_of(managed: Managed) -> dict[str, torch.Tensor]:
    """The model's state by name, in host memory, parameters in fp32."""
    ids = {id(p): i for i, p in enumerate(managed.parameters)}
    values: dict[int, torch.Tensor] = {}
    state: dict[str, torch.Tensor] = {}
    for name, tensor in own(managed.model, "state_dict")(keep_vars=True).items():
        number = ids.get(id(tensor))
        if number is None:
            if isinstance(tensor, torch.Tensor):
                tensor = tensor.detach()
                tensor = tensor.cpu() if tensor.is_cuda else tensor.clone()
            state[name] = tensor
            continue
        if number not in values:  # tied names get one tensor
            values[number] = managed.run.values(number)
        state[name] = values[number]
    return state


def load_state(managed: Managed, state: Any, named: dict[str, Any]) -> Any:
    """The model's own load_state_dict, with what else it is given. On several ranks
    rank 0's values count. After an error parameters are as they were."""
    values = [managed.run.values(i) for i in range(len(managed.parameters))]
    before = [parameter.data for parameter in managed.parameters]
    try:
        for parameter, value in zip(managed.parameters, values):
            parameter.data = value
        versions = [parameter._version for parameter in managed.parameters]
        result = own(managed.model, "load_state_dict")(state, **named)
        written = [
            i
            for i, parameter in enumerate(managed.parameters)
            if parameter._version != versions[i]
        ]
    finally:
        for parameter, data in zip(managed.parameters, before):
            parameter.data = data
    for i in written:
        managed.run.set_values(i, values[i])
    return result


def save_pretrained(
    managed: Managed, directory: str | os.PathLike[str], named: dict[str, Any]
) -> None:
    """`Engine.save_pretrained`, with what else it is given."""
    save = own(managed.model, "save_pretrained")
    if save is None:
        raise TypeError(
            f"castor: {type(managed.model).__name__} has no save_pretrained; "
            "save engine.state_dict() instead"
        )
    with managed.lent(keep=managed.rank == 0) as state:

        def write() -> str:
            if managed.rank == 0:
                save(directory, state_dict=state, **named)
            return ""

        on_all_ranks(managed, "save_pretrained", write)
