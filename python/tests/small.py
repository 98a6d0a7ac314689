"""The smallest model that has what an engine does, and calls of it."""

from __future__ import annotations

from typing import Any

import castor
import torch
from torch import nn

from promises_test import bytes_of, config_of


class Net(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.a = nn.Linear(width, width)
        self.b = nn.Linear(width, 1)
        self.fail = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.tanh(self.a(x))
        if self.fail:
            raise KeyError("from the model")
        return self.b(x).mean()


def engine_of(
    model: nn.Module, micro_batches: int = 1, budget: int | None = None, **more: Any
) -> castor.Engine:
    return castor.initialize(model, config_of(micro_batches, False, budget), **more)


def one_step(engine: castor.Engine, x: torch.Tensor) -> float:
    loss = engine(x)
    engine.backward(loss)
    engine.step()
    return loss.item()


def bits(engine: castor.Engine) -> list[bytes]:
    return [bytes_of(v) for v in engine.state_dict().values()]


X = torch.randn(4, 8, generator=torch.Generator().manual_seed(0))
