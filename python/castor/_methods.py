"""The model's own methods while an engine has its parameters."""

from __future__ import annotations

import copy
import inspect
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from castor._library import shim

if TYPE_CHECKING:
    from castor._engine import Engine


def own(model: nn.Module, name: str) -> Any:
    """The model's method as it is without an engine; None: it has none."""
    method = model.__dict__.get(name)
    if isinstance(method, _Method):
        method = method.before
    if method is not None:
        return method
    function = getattr(type(model), name, None)
    if function is not None:
        return function.__get__(model)
    # nn.Module's attributes, or those of a wrapper such as PeftModel.
    return None if name.startswith("__") else getattr(model, name, None)


def take_over(engine: Engine) -> None:
    """From now on the methods of this instance that read or write parameters go
    through the engine. The model does not keep the engine, nor itself."""
    model = engine._model
    for name, work in _WORK.items():
        if name == "__deepcopy__" or getattr(model, name, None) is not None:
            # Not nn.Module's own way, which is for parameters and modules.
            model.__dict__[name] = _Method(engine, name, work)


def give_back(model: nn.Module) -> None:
    """The methods are the model's own again."""
    for name in _WORK:
        method = model.__dict__.get(name)
        if isinstance(method, _Method):
            del model.__dict__[name]
            if method.before is not None:
                model.__dict__[name] = method.before


class _Method:
    """What stands in the place of a method.

    Attributes:
        before: what the instance had under its name; None: nothing, the class
            has it.
    """

    def __init__(self, engine: Engine, name: str, work: Callable[..., Any]) -> None:
        model = engine._model
        self.before = model.__dict__.get(name)
        self._name = name
        self._work = work
        self._model = weakref.ref(model)
        self._engine = weakref.ref(engine)
        method = own(model, name)
        if method is not None:
            self.__name__ = name
            self.__doc__ = method.__doc__
            self.__signature__ = inspect.signature(method)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        engine, model = self._engine(), self._model()
        if model is None:
            raise ReferenceError(f"castor: {self._name} of a model that is gone")
        if engine is None or engine._run.closed:
            give_back(model)
        elif not shim.is_entered():
            return self._work(engine, *args, **kwargs)
        method = own(model, self._name)
        if method is None:  # __deepcopy__, of which few classes have their own
            return _copied(model, *args)
        return method(*args, **kwargs)


def _state_dict(engine: Engine, *args: Any, **kwargs: Any) -> Any:
    method = own(engine._model, "state_dict")
    if kwargs.get("keep_vars"):  # the Parameter objects themselves
        return method(*args, **kwargs)
    with engine._managed.lent():
        return method(*args, **kwargs)


def _load_state_dict(engine: Engine, *args: Any, **kwargs: Any) -> Any:
    raise RuntimeError(
        "castor: load_state_dict of a model that an engine has: "
        "engine.load_checkpoint takes a checkpoint of engine.save_checkpoint; for "
        "other values engine.close(keep_values=True), load them into the model, and "
        "initialize again"
    )


def _save_pretrained(engine: Engine, *args: Any, **kwargs: Any) -> Any:
    if "state_dict" not in kwargs:
        return engine.save_pretrained(*args, **kwargs)
    method = own(engine._model, "save_pretrained")
    if engine.world_size > 1:  # whoever has gathered values may be alone here
        return method(*args, **kwargs)
    with engine._managed.lent():
        return method(*args, **kwargs)


def _generate(engine: Engine, *args: Any, **kwargs: Any) -> Any:
    with torch.no_grad():
        return engine.compute(own(engine._model, "generate"), *args, **kwargs)


def _deepcopy(engine: Engine, memo: dict[int, Any]) -> Any:
    """A plain model, in host memory."""
    with engine._managed.lent():
        return _copied(engine._model, memo)


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
    "__deepcopy__": _deepcopy,
}
