"""The model's own methods while an engine has its parameters."""

from __future__ import annotations

import copy
import inspect
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from castor._library import shim
from castor._managed import Managed, call_plainly, own
from castor._state import load_state, save_pretrained
from castor._steps import Steps


def take_over(managed: Managed, steps: Steps) -> None:
    """From now on the methods of this instance that read or write parameters go
    through the engine. The model does not keep the engine, nor itself."""
    for name in _WORK:
        if name in _PLAIN or getattr(managed.model, name, None) is not None:
            _take(managed, steps, name)


def _take(managed: Managed, steps: Steps, name: str) -> None:
    # Not nn.Module's own way, which is for parameters and modules.
    managed.model.__dict__[name] = _Method(managed, steps, name, _WORK[name])


def give_back(model: nn.Module) -> None:
    """The methods are the model's own again."""
    for name in _WORK:
        method = model.__dict__.get(name)
        if isinstance(method, _Method):
            del model.__dict__[name]
            if method.castor_before is not None:
                model.__dict__[name] = method.castor_before


class _Method:
    """What stands in the place of a method.

    Attributes:
        castor_before: what the instance had under its name; None: nothing, the
            class has it.
    """

    def __init__(
        self, managed: Managed, steps: Steps, name: str, work: Callable[..., Any]
    ) -> None:
        model = managed.model
        self.castor_before = model.__dict__.get(name)
        self._name = name
        self._work = work
        self._model = weakref.ref(model)
        self._managed = weakref.ref(managed)
        self._steps = weakref.ref(steps)
        method = own(model, name)
        if method is not None:
            self.__name__ = name
            self.__doc__ = method.__doc__
            self.__signature__ = inspect.signature(method)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        managed, steps, model = self._managed(), self._steps(), self._model()
        if model is None:
            raise ReferenceError(f"castor: {self._name} of a model that is gone")
        if managed is None or steps is None or managed.run.closed:
            give_back(model)
        elif not shim.is_entered():
            return self._work(managed, steps, *args, **kwargs)
        method = own(model, self._name)
        if method is None:
            return _PLAIN[self._name](model, *args, **kwargs)
        return method(*args, **kwargs)


def _call(managed: Managed, steps: Steps, *args: Any, **kwargs: Any) -> Any:
    return steps.compute(managed.model, args, kwargs)


def _compile(managed: Managed, steps: Steps, *args: Any, **kwargs: Any) -> None:
    own(managed.model, "compile")(*args, **kwargs)
    _take(managed, steps, "_compiled_call_impl")  # it has put its own there


def _state_dict(managed: Managed, steps: Steps, *args: Any, **kwargs: Any) -> Any:
    method = own(managed.model, "state_dict")
    if kwargs.get("keep_vars"):  # the Parameter objects themselves
        return method(*args, **kwargs)
    with managed.lent():
        return method(*args, **kwargs)


def _load_state_dict(
    managed: Managed,
    steps: Steps,
    state_dict: Any,
    strict: bool = True,
    assign: bool = False,
) -> Any:
    if assign:
        raise RuntimeError(
            "castor: load_state_dict(assign=True) of a model that an engine has would "
            "put other tensors in the place of its parameters: leave assign out"
        )
    with steps.alone():
        return load_state(managed, state_dict, {"strict": strict})


def _save_pretrained(
    managed: Managed, steps: Steps, save_directory: Any, **kwargs: Any
) -> Any:
    if "state_dict" not in kwargs:
        return save_pretrained(managed, save_directory, kwargs)
    method = own(managed.model, "save_pretrained")
    if managed.world_size > 1:  # whoever has gathered values may be alone here
        return method(save_directory, **kwargs)
    with managed.lent():
        return method(save_directory, **kwargs)


def _generate(managed: Managed, steps: Steps, *args: Any, **kwargs: Any) -> Any:
    with torch.no_grad():
        return steps.compute(own(managed.model, "generate"), args, kwargs)


def _deepcopy(managed: Managed, steps: Steps, memo: dict[int, Any]) -> Any:
    """A plain model, in host memory."""
    with managed.lent():
        return _copied(managed.model, memo)


def _reduce(managed: Managed, steps: Steps, protocol: Any) -> Any:
    """For pickle, and so torch.save: a plain model, in host memory."""
    return _deepcopy(managed, steps, {}).__reduce_ex__(protocol)


def _copied(model: nn.Module, memo: dict[int, Any]) -> Any:
    taken = {
        name: method
        for name, method in model.__dict__.items()
        if isinstance(method, _Method)
    }
    give_back(model)
    try:
        return copy.deepcopy(model, memo)
    finally:
        model.__dict__.update(taken)


_WORK: dict[str, Callable[..., Any]] = {
    "state_dict": _state_dict,
    "load_state_dict": _load_state_dict,
    "save_pretrained": _save_pretrained,
    "generate": _generate,
    # What nn.Module.__call__ calls, if it is there; compiled graphs of which the
    # model is a part do not look at it.
    "_compiled_call_impl": _call,
    "compile": _compile,
    "__deepcopy__": _deepcopy,
    "__reduce_ex__": _reduce,
}
# What the methods do that few classes have, where there is no engine.
_PLAIN: dict[str, Callable[..., Any]] = {
    "_compiled_call_impl": call_plainly,
    "__deepcopy__": _copied,
}
