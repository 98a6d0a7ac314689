"""Trainers of other libraries, such as TRL's, with a model in managed memory."""

from __future__ import annotations

import inspect
from typing import Any

import torch
import transformers
from torch import nn

from castor._engine import Engine
from castor._trainer import Trainer
from castor._trainer_config import refuse
from castor._zero_init import Config


class _Wrapped:
    """What comes before a trainer in the classes of `wrap`; `Trainer` comes behind
    it, so that the trainer's own methods reach the engine's."""

    args: Any
    engine: Engine
    _module: nn.Module
    _evaluated: Any
    _from_device: Any

    def __init__(self, *args: Any, castor: Config | None = None, **named: Any) -> None:
        self._castor_given = castor
        super().__init__(*args, **named)
        if self.args.world_size > 1:
            # What it gathers from the other ranks within a pass they may not come
            # to, where one of them alone finds no memory.
            refuse(
                f"{type(self).__name__} on {self.args.world_size} ranks",
                "train on one, or use castor.Trainer",
            )

    def _check_overrides(self) -> None:
        pass  # what the trainer overrides calls the engine's

    def prediction_step(
        self, model: nn.Module, inputs: Any, *more: Any, **named: Any
    ) -> Any:
        step = super().prediction_step  # type: ignore[misc]
        mine = self._model_inputs(inputs)
        return self._from_device(
            self._evaluated(lambda: step(model, mine, *more, **named))
        )

    def _compute(self, function: Any, inputs: dict[str, Any], *more: Any) -> Any:
        mine = self._model_inputs(inputs)
        return self.engine.compute(lambda: function(mine, *more))

    def _model_inputs(self, inputs: Any) -> Any:
        """Inputs with those of the model's forward in the engine's type. Others
        (advantages, a reference's log-probabilities) keep what they are."""
        if not isinstance(inputs, dict):
            return inputs
        model: Any = self._module
        if hasattr(model, "get_base_model"):
            model = model.get_base_model()
        forward = inspect.signature(model.forward).parameters
        floats = {
            name: value.to(self.engine._managed.dtype)
            for name, value in inputs.items()
            if name in forward
            and isinstance(value, torch.Tensor)
            and value.is_floating_point()
        }
        return {**inputs, **floats}


def wrap(trainer: type) -> type:
    """A subclass of a trainer (TRL's, or one's own subclass of
    transformers.Trainer) whose model trains in managed memory, as `Trainer`'s.

        trainer = castor.wrap(trl.DPOTrainer)(model, args=args, ..., castor=config)

    It takes the trainer's arguments and, by its name, `castor`. A model beside
    the one that is trained, such as a reference model, is not managed: it lies
    in host memory as ever.

    Args:
        trainer: a subclass of transformers.Trainer, or that class.

    Raises:
        TypeError: `trainer` is none.
    """
    if not (isinstance(trainer, type) and issubclass(trainer, transformers.Trainer)):
        raise TypeError(
            f"castor: wrap({getattr(trainer, '__name__', trainer)}) wants a subclass "
            "of transformers.Trainer"
        )
    if trainer is transformers.Trainer:
        return Trainer
    if issubclass(trainer, Trainer):
        return trainer
    doc = f"{trainer.__name__} whose model trains in managed memory."
    return type(
        f"Castor{trainer.__name__}", (_Wrapped, trainer, Trainer), {"__doc__": doc}
    )
