"""Which tensors of a model become managed, and which models cannot."""

from __future__ import annotations

import torch
from torch import nn

from castor._library import shim


def _refuse(what: str, do: str) -> None:
    raise ValueError(f"castor.initialize: {what}; {do}")


def _byte_range(tensor: torch.Tensor) -> tuple[int, int, int]:
    """The storage, and the first and the end of its bytes that it uses."""
    size = tensor.element_size()
    first = int(tensor.storage_offset()) * size
    span = 1 + sum((n - 1) * int(s) for n, s in zip(tensor.shape, tensor.stride()))
    storage = tensor.untyped_storage()
    try:
        return storage.data_ptr(), first, first + span * size
    except RuntimeError:  # nothing else has its memory, which is put away
        return -storage._cdata, first, first + span * size


def _check_one(name: str, parameter: torch.Tensor, is_managed: bool) -> None:
    what = f"parameter {name}"
    if nn.parameter.is_lazy(parameter):
        _refuse(f"{what} has no shape yet", "call the model once before")
    if is_managed:
        _refuse(
            f"{what} has an engine already, or its values went with one",
            "close that engine with close(keep_values=True)",
        )
    if type(parameter).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        _refuse(
            f"{what} is a {type(parameter).__name__}, not a plain tensor",
            "make the model without what wraps its parameters",
        )
    if parameter.device.type == "meta":
        _refuse(
            f"{what} has no values, since it is on the meta device",
            "load its values, or call to_empty and initialise it",
        )
    if parameter.device.type != "cpu":
        _refuse(
            f"{what} is on {parameter.device}",
            "leave the model on the CPU: the engine takes it from there, to a GPU too",
        )
    if parameter.layout != torch.strided:
        _refuse(f"{what} is sparse", "make it dense, with its to_dense")
    if not parameter.dtype.is_floating_point or parameter.element_size() == 1:
        _refuse(
            f"{what} is of {parameter.dtype}",
            "only fp32, fp64, bf16 and fp16 can be managed: make it a buffer, "
            "or load the model without quantization",
        )


def _check_overlaps(tensors: list[tuple[str, torch.Tensor]]) -> None:
    ranges = sorted((*_byte_range(t), name) for name, t in tensors)
    end_of: dict[int, tuple[int, str]] = {}
    for storage, first, end, name in ranges:
        last_end, last_name = end_of.get(storage, (0, ""))
        if first < last_end:
            _refuse(
                f"{last_name} and {name} share memory but are two tensors",
                "tie them by assigning one Parameter to both modules, or copy "
                "one with clone()",
            )
        if end > last_end:
            end_of[storage] = (end, name)


def check_modules(model: nn.Module) -> None:
    """Refuses a model of which a part is of torch.jit."""
    for name, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule):
            _refuse(
                f"module {name or type(module).__name__} is of torch.jit",
                "use the module that it was made from",
            )


def managed_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """The model's parameters by name, each tied one once, without empty ones.

    Raises:
        ValueError: one of them cannot be managed; one line says which and why.
    """
    parameters: dict[str, nn.Parameter] = {}
    for name, parameter in model.named_parameters():
        _check_one(name, parameter, shim.is_managed(parameter))
        if parameter.numel() > 0:
            parameters[name] = parameter
    if not parameters:
        _refuse("the model has no parameters", "give it one that has")
    others = [
        (f"buffer {name}", buffer)
        for name, buffer in model.named_buffers()
        if buffer.device.type == "cpu"
        and buffer.layout == torch.strided
        and buffer.numel() > 0
    ]
    own = [(f"parameter {name}", p) for name, p in parameters.items()]
    taken = {_byte_range(p)[0] for _, p in own}
    # Buffers may share memory with each other, but not with a parameter.
    _check_overlaps(own + [b for b in others if _byte_range(b[1])[0] in taken])
    return parameters
