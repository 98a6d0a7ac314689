"""Random numbers that a model draws inside an engine, and elsewhere."""

from __future__ import annotations

import unittest

import castor
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from promises_test import config_of
from small import X, bits, engine_of


class Draws(nn.Module):
    """Keeps what it draws, in forward and in backward."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(8, 8)
        self.drawn: list[float] = []
        self.checkpoint: bool | None = None  # its kind
        self.fail = 0

    def layer(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.dropout(self.a(x), 0.5, self.training)
        self.drawn.append(torch.rand(()).item())
        return x

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.checkpoint is None:
            x = self.layer(x)
        else:
            # Reentrant checkpointing wants an input with a gradient.
            x = x.requires_grad_()
            x = checkpoint(self.layer, x, use_reentrant=self.checkpoint)
        self.fail -= 1
        if self.fail == 0:
            raise KeyError("from the model")
        if x.requires_grad:
            x.register_hook(lambda g: self.drawn.append(torch.rand(()).item()))
        return x.square().mean()


def micro_batch(engine: castor.Engine, x: torch.Tensor = X) -> None:
    engine.backward(engine(x))
    engine.step()


def drawn_by(**more: object) -> tuple[list[float], list[bytes]]:
    torch.manual_seed(0)
    model = Draws()
    for key, value in more.items():
        setattr(model, key, value)
    with engine_of(model, micro_batches=2) as engine:
        for _ in range(6):
            micro_batch(engine)
        return model.drawn, bits(engine)


class Generator(unittest.TestCase):
    def test_follows_from_seed_step_micro_batch_and_call(self) -> None:
        drawn, _ = drawn_by()
        expected = []
        for step in (1, 2, 3):
            for index in (0, 1):
                torch.manual_seed(castor.generator_seed(1234, step, index))
                nn.functional.dropout(torch.ones(4, 8), 0.5)
                expected.append(torch.rand(()).item())
                torch.manual_seed(castor.generator_seed(1234, step, index, 1))
                expected.append(torch.rand(()).item())
        self.assertEqual(drawn, expected)
        self.assertEqual(len(set(drawn)), len(drawn))

    def test_seed_of_the_configuration(self) -> None:
        def first(seed: int) -> float:
            model = Draws()
            config = {**config_of(1, False, None), "seed": seed}
            with castor.initialize(model, config) as engine:
                micro_batch(engine)
            return model.drawn[0]

        self.assertEqual(first(5), first(5))
        self.assertNotEqual(first(5), first(6))

    def test_checkpointing_draws_as_without(self) -> None:
        plain, values = drawn_by()
        for kind in (True, False):
            drawn, same = drawn_by(checkpoint=kind)
            # The values tell that dropout was the same when computed again.
            self.assertEqual(same, values)
            self.assertEqual(drawn[:2], plain[:2])

    def test_each_call_of_a_micro_batch_draws_anew(self) -> None:
        model = Draws()
        with engine_of(model) as engine:
            first, second = engine(X), engine(X)
            with torch.no_grad():
                engine(X)  # an evaluation does not count
            engine.backward(first + second)
            engine.step()
        expected = []
        for call in (0, 1):
            torch.manual_seed(castor.generator_seed(1234, 1, 0, call))
            nn.functional.dropout(torch.ones(4, 8), 0.5)
            expected.append(torch.rand(()).item())
        self.assertEqual(model.drawn[:2], expected)
        self.assertEqual(len(set(model.drawn)), 5)

    def test_undone_step_draws_the_same(self) -> None:
        expected, values = drawn_by()
        torch.manual_seed(0)
        model = Draws()
        with engine_of(model, micro_batches=2) as engine:
            micro_batch(engine)
            micro_batch(engine)
            micro_batch(engine)
            model.fail = 1
            with self.assertRaises(KeyError):
                engine(X)
            engine(X)
            engine.abort()  # by hand
            del model.drawn[4:]
            torch.rand(7)  # the process draws what it likes
            for _ in range(4):
                micro_batch(engine)
            self.assertEqual(model.drawn, expected)
            self.assertEqual(bits(engine), values)

    def test_process_draws_as_without_an_engine(self) -> None:
        torch.manual_seed(9)
        before = torch.get_rng_state()
        model = Draws()
        made = torch.get_rng_state()
        with engine_of(model, sample_batch=[X]) as engine:
            micro_batch(engine)
            model.fail = 1
            with self.assertRaises(KeyError):
                engine(X)
            self.assertTrue(torch.equal(torch.get_rng_state(), made))
        self.assertFalse(torch.equal(before, made))

    def test_evaluation_draws_from_the_process(self) -> None:
        model = Draws()
        with engine_of(model) as engine, torch.no_grad():
            torch.manual_seed(4)
            engine(X)
            engine(X)
        torch.manual_seed(4)
        for drawn in model.drawn:
            nn.functional.dropout(torch.ones(4, 8), 0.5)
            self.assertEqual(torch.rand(()).item(), drawn)

    def test_refused_evaluation_takes_its_draws_back(self) -> None:
        model = Draws()
        with engine_of(model, budget=1 << 16) as engine, torch.no_grad():
            engine(X)
            state = torch.get_rng_state()
            with self.assertRaises(castor.Refused):
                engine(X.repeat(10000, 1))
            self.assertTrue(torch.equal(torch.get_rng_state(), state))


if __name__ == "__main__":
    unittest.main()
