"""A model in managed memory, on which the parts of an engine work."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from castor._compiled import plain_name
from castor._gpu import Gpu, move_buffers
from castor._library import shim
from castor._shared_init import owner_of


def own(model: nn.Module, name: str) -> Any:
    """The model's method as it is without an engine (castor/_methods.py); None: it
    has none."""
    method = model.__dict__.get(name)
    method = getattr(method, "castor_before", method)
    if method is not None:
        return method
    function = getattr(type(model), name, None)
    if function is not None:
        return function.__get__(model)
    # nn.Module's attributes, or those of a wrapper such as PeftModel.
    return None if name.startswith("_") else getattr(model, name, None)


def call_plainly(model: nn.Module, *args: Any, **kwargs: Any) -> Any:
    """A call of the model that does not go through its engine."""
    compiled = own(model, "_compiled_call_impl")
    return (compiled or model._call_impl)(*args, **kwargs)


class Managed:
    """A model and the run that has its parameters.

    Attributes:
        model: as `initialize` got it.
        run: of the core.
        parameters: by their numbers in the run.
        gpu: where the model computes; None: on the CPU.
        foresee: what uses such as castor_foresee wants them come to, as JSON.
        rank: which of the ranks this process is.
        world_size: how many there are.
    """

    def __init__(
        self,
        model: nn.Module,
        run: shim.Run,
        parameters: list[nn.Parameter],
        gpu: Gpu | None,
        foresee: Callable[[str], str],
    ) -> None:
        self.model = model
        self.run = run
        self.parameters = parameters
        self.gpu = gpu
        self.foresee = foresee
        self.rank = run.rank
        self.world_size = run.world_size
        self._trained = {id(p): p.requires_grad for p in parameters}

    @property
    def dtype(self) -> torch.dtype:
        """That of the parameters, and so that in which the model computes."""
        return self.parameters[0].dtype

    def check_parameters(self) -> None:
        """Refuses to train a model in which a trained parameter came after
        `initialize`, or one is trained only since then. One that was frozen
        since has no gradient, and is left alone.

        Raises:
            RuntimeError: there is one; the line names it.
        """
        for name, parameter in self.model.named_parameters():
            was = self._trained.get(id(parameter))
            if was is None:
                if parameter.numel() == 0 or not parameter.requires_grad:
                    continue
                raise RuntimeError(
                    f"castor: parameter {name} came to the model after "
                    "castor.initialize, and nothing would train it; freeze it, or "
                    "close(keep_values=True), and initialize the changed model"
                )
            if parameter.requires_grad and not was:
                raise RuntimeError(
                    f"castor: parameter {name} was frozen at castor.initialize, and "
                    "is not now; initialize the model with what is ever trained "
                    "(it can be frozen after that), or close(keep_values=True), "
                    "and initialize the changed model"
                )

    def adopt(self) -> None:
        """Hands the parameters' values to the run."""
        for number, parameter in enumerate(self.parameters):
            owner = owner_of(parameter)
            if owner == self.rank:
                shim.bring_back(parameter)
            if parameter.requires_grad and parameter._post_accumulate_grad_hooks is None:
                # The run's hook calls what is in there before it takes a gradient;
                # a hook that is registered later comes to these.
                parameter._post_accumulate_grad_hooks = OrderedDict()
            self.run.adopt(number, parameter, owner or 0)

    @contextmanager
    def lent(self, keep: bool = True) -> Iterator[dict[str, torch.Tensor]]:
        """Between steps, by all ranks together. Meanwhile the parameters have
        their values in host memory, in the type in which they compute, for who
        only reads them. Gives the model's state, under the names that it has
        without torch.compile; it stays good.

        Args:
            keep: False on a rank that takes part and needs no values; it gets
                none.
        """
        managed: list[tuple[nn.Parameter, torch.Tensor]] = []
        state: dict[str, torch.Tensor] = {}
        try:
            for number, parameter in enumerate(self.parameters):
                values = self.run.values(number)
                if not keep:
                    continue
                managed.append((parameter, parameter.data))
                parameter.data = values.to(parameter.dtype)
            if keep:
                for name, tensor in own(self.model, "state_dict")().items():
                    on_gpu = isinstance(tensor, torch.Tensor) and tensor.is_cuda
                    state[plain_name(name)] = tensor.cpu() if on_gpu else tensor
            yield state
        finally:
            for parameter, data in managed:
                parameter.data = data

    def give_back(self) -> None:
        """Makes the model a plain one, in host memory."""
        for number, parameter in enumerate(self.parameters):
            if shim.is_managed(parameter):
                values = self.run.values(number)
                parameter.data = values.to(parameter.dtype)
        if self.gpu is not None:
            move_buffers(self.model, torch.device("cpu"))
