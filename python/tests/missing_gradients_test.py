"""Parameters that have no gradient in a step, against PyTorch's own optimizer."""

from __future__ import annotations

import tempfile
import unittest
from collections.abc import Callable
from typing import Any

import castor
import torch
from torch import nn

from small import X, bits

STEPS = 9
LR, DECAY = 1e-2, 0.1


class Parts(nn.Module):
    """Layers of which a step leaves some out."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))
        self.heads = nn.ModuleList(nn.Linear(8, 1) for _ in range(2))
        self.never = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, use: int) -> torch.Tensor:
        for i, layer in enumerate(self.layers):
            if use % 4 != i:  # LayerDrop
                x = torch.tanh(layer(x))
        return self.heads[use % 2](x).square().mean()  # tasks by turns


class ReadInVain(Parts):
    """Reads a head of which the loss says nothing."""

    def forward(self, x: torch.Tensor, use: int) -> torch.Tensor:
        x = self.layers[0](x)
        heads = [head(x).square().mean() for head in self.heads]
        return heads[use % 2]


def config(micro_batches: int, clipping: float, more: dict[str, Any]) -> dict[str, Any]:
    return {
        "optimizer": {"type": "AdamW", "params": {"lr": LR, "weight_decay": DECAY}},
        "gradient_accumulation_steps": micro_batches,
        "gradient_clipping": clipping,
        "memory": {"chunk_size": 4096},
        **more,
    }


def plain(
    make: Callable[[], nn.Module],
    micro_batches: int,
    clipping: float,
    zeros: bool = False,
    kind: type[torch.optim.Optimizer] = torch.optim.AdamW,
    **numbers: Any,
) -> list[torch.Tensor]:
    torch.manual_seed(0)
    model = make()
    keys: dict[str, Any] = {"lr": LR, "weight_decay": DECAY, **numbers}
    optimizer = kind(model.parameters(), **keys)
    for step in range(STEPS):
        optimizer.zero_grad()
        if zeros:
            for parameter in model.parameters():
                parameter.grad = torch.zeros_like(parameter)
        for m in range(micro_batches):
            (model(X + m, step + m) / micro_batches).backward()
        if clipping > 0:
            nn.utils.clip_grad_norm_(model.parameters(), clipping)
        optimizer.step()
    return [p.detach() for p in model.parameters()]


def managed(
    make: Callable[[], nn.Module],
    settings: dict[str, Any],
    saved_at: int = -1,
) -> tuple[list[torch.Tensor], list[bytes]]:
    torch.manual_seed(0)
    micro_batches = settings["gradient_accumulation_steps"]
    with tempfile.TemporaryDirectory() as folder:
        engine = castor.initialize(make(), settings)
        for step in range(STEPS):
            if step == saved_at:
                engine.save_checkpoint(folder)
                engine.close()
                engine = castor.initialize(make(), settings)
                engine.load_checkpoint(folder)
            for m in range(micro_batches):
                engine.backward(engine(X + m, step + m))
                engine.step()
        state, values = engine.state_dict(), bits(engine)
        engine.close()
    return list(state.values()), values


class MissingGradients(unittest.TestCase):
    def holds(
        self,
        make: Callable[[], nn.Module],
        micro_batches: int,
        clipping: float,
        zeros: bool = False,
    ) -> list[bytes]:
        more = {"missing_gradients": "zero"} if zeros else {}
        settings = config(micro_batches, clipping, more)
        ours, values = managed(make, settings)
        for a, b in zip(ours, plain(make, micro_batches, clipping, zeros), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
        self.has_bits_everywhere(make, settings, values)
        return values

    def has_bits_everywhere(
        self,
        make: Callable[[], nn.Module],
        settings: dict[str, Any],
        values: list[bytes],
    ) -> None:
        settings["memory"]["placement_policy"] = "cpu"
        self.assertEqual(managed(make, settings)[1], values)
        self.assertEqual(managed(make, settings, saved_at=4)[1], values)

    def test_leave_a_parameter_alone(self) -> None:
        for make in (Parts, ReadInVain):
            for micro_batches, clipping in ((1, 0.0), (2, 0.0), (1, 0.05), (2, 1e9)):
                with self.subTest(make=make, m=micro_batches, clipping=clipping):
                    alone = self.holds(make, micro_batches, clipping)
                    zeros = self.holds(make, micro_batches, clipping, zeros=True)
                    self.assertNotEqual(alone, zeros)

    def test_sgd_leaves_it_alone(self) -> None:
        # A parameter's first gradient, at whatever step, is its momentum.
        variants: list[dict[str, Any]] = [
            {},
            {"momentum": 0.9, "dampening": 0.3},
            {"momentum": 0.9, "nesterov": True},
        ]
        for numbers in variants:
            with self.subTest(numbers=numbers):
                settings = config(2, 0.05, {})
                settings["optimizer"]["type"] = "SGD"
                settings["optimizer"]["params"].update(numbers)
                ours, values = managed(Parts, settings)
                theirs = plain(Parts, 2, 0.05, kind=torch.optim.SGD, **numbers)
                for a, b in zip(ours, theirs, strict=True):
                    torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
                self.has_bits_everywhere(Parts, settings, values)

    def test_frozen_and_thawed_between_steps(self) -> None:
        torch.manual_seed(0)
        model, twin = Parts(), Parts()
        twin.load_state_dict(model.state_dict())
        optimizer = torch.optim.AdamW(twin.parameters(), lr=LR, weight_decay=DECAY)
        with castor.initialize(model, config(1, 0.0, {})) as engine:
            for step in range(STEPS):
                for m in (model, twin):
                    for p in m.layers[1].parameters():
                        p.requires_grad_(step % 3 != 1)
                optimizer.zero_grad()
                twin(X, step).backward()
                optimizer.step()
                engine.backward(engine(X, step))
                engine.step()
            for a, b in zip(engine.state_dict().values(), twin.state_dict().values()):
                torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)

    def test_an_unknown_rule_is_refused(self) -> None:
        with self.assertRaisesRegex(ValueError, r'missing_gradients.*"skip".*"zero"'):
            castor.initialize(Parts(), config(1, 0.0, {"missing_gradients": "none"}))


if __name__ == "__main__":
    unittest.main()
