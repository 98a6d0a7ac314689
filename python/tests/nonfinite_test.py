"""Gradients that are not finite: the step is undone, and the engine goes on."""

from __future__ import annotations

import itertools
import tempfile
import unittest
from pathlib import Path
from typing import Any

import castor
import torch
from torch import nn

from promises_test import config_of
from small import Net, X, bits, one_step

BAD = torch.full_like(X, float("nan"))


def config(
    clipping: float | None, bf16: bool = False, budget: int | None = None, **more: Any
) -> dict[str, Any]:
    made = config_of(more.pop("micro_batches", 1), bf16, budget) | more
    if clipping is not None:
        made["gradient_clipping"] = clipping
    return made


def net() -> Net:
    torch.manual_seed(1)
    return Net()


def whole_step(engine: castor.Engine, x: torch.Tensor) -> None:
    """A step whose last micro batch alone is `x`."""
    for i in range(engine._steps.micro_batches):
        last = i + 1 == engine._steps.micro_batches
        engine.backward(engine(x if last else X))
        engine.step()


class Undone(unittest.TestCase):
    def test_leaves_no_trace(self) -> None:
        for bf16, micro_batches, budget, clipping in itertools.product(
            (False, True), (1, 2), (None, 20_000), (0.5, 1e9, None)
        ):
            more: dict[str, Any] = {"micro_batches": micro_batches}
            if clipping is None:
                more["on_nonfinite_undo"] = True
            with self.subTest(bf16=bf16, more=more, clipping=clipping, budget=budget):
                with castor.initialize(
                    net(), config(clipping, bf16, budget, **dict(more))
                ) as engine:
                    for _ in range(4):
                        whole_step(engine, X)
                    expected = bits(engine)
                with castor.initialize(
                    net(), config(clipping, bf16, budget, **dict(more))
                ) as engine:
                    for step in range(4):
                        if step in (1, 3):
                            before = bits(engine)
                            with self.assertRaisesRegex(
                                castor.NonFiniteError, r'is not finite \("[\w.]+"\)'
                            ):
                                whole_step(engine, BAD)
                            self.assertEqual(bits(engine), before)
                            self.assertEqual(engine.global_steps, step + (step + 1) // 2)
                        whole_step(engine, X)
                    self.assertEqual(bits(engine), expected)
                    summary = engine.summary()
                    self.assertEqual(summary["skipped_steps"], 2)
                    self.assertEqual(engine.global_steps, 6)

    def test_names_the_parameter_that_is_first_in_backward(self) -> None:
        class Two(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.a = nn.Linear(8, 8)
                self.b = nn.Linear(8, 1)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                y = self.b(x).square().mean()  # finite
                return y + (self.a(x) * float("inf")).mean()

        with castor.initialize(Two(), config(1.0)) as engine:
            with self.assertRaisesRegex(castor.NonFiniteError, r'"a\.(weight|bias)"'):
                one_step(engine, X)

    def test_everything_works_afterwards(self) -> None:
        model = net()
        with tempfile.TemporaryDirectory() as folder:
            with castor.initialize(model, config(1.0)) as engine:
                one_step(engine, X)
                expected = bits(engine)
                with self.assertRaises(castor.NonFiniteError):
                    one_step(engine, BAD)
                engine.eval()
                self.assertTrue(torch.isfinite(engine(X)))
                engine.train()
                self.assertEqual(engine.gradient_norm, float("inf"))
                path = engine.save_checkpoint(folder)
                self.assertEqual(bits(engine), expected)
                engine.load_checkpoint(path)
                self.assertEqual(engine.summary()["skipped_steps"], 1)
                one_step(engine, X)
                after = bits(engine)
                engine.close(keep_values=True)
            self.assertTrue(all(torch.isfinite(p).all() for p in model.parameters()))
            # The checkpoint has the count of updates, without the undone step.
            with castor.initialize(net(), config(1.0)) as engine:
                engine.load_checkpoint(Path(folder))
                self.assertEqual(engine.global_steps, 2)
                one_step(engine, X)
                self.assertEqual(bits(engine), after)

    def test_skip_goes_on_as_a_plain_loop_that_leaves_such_steps_out(self) -> None:
        plain = net()
        optimizer = torch.optim.AdamW(plain.parameters(), lr=1e-2, weight_decay=0.01)
        more = {"on_nonfinite": "skip", "max_skipped_steps": 3}
        model = net()
        with castor.initialize(model, config(0.5, **more)) as engine:
            for x in (X, BAD, BAD, X, BAD, X):
                optimizer.zero_grad()
                plain(x).backward()
                norm = nn.utils.clip_grad_norm_(plain.parameters(), 0.5)
                if torch.isfinite(norm):
                    optimizer.step()
                one_step(engine, x)
            self.assertEqual(engine.summary()["skipped_steps"], 3)
            got = engine.state_dict()
            for name, parameter in plain.named_parameters():
                torch.testing.assert_close(got[name], parameter.detach())
            one_step(engine, BAD)
            one_step(engine, BAD)
            before = bits(engine)
            with self.assertRaisesRegex(castor.NonFiniteError, "as at 2 before it"):
                one_step(engine, BAD)
            self.assertEqual(bits(engine), before)
            one_step(engine, X)


class Spoiled(unittest.TestCase):
    def test_without_clipping_a_checkpoint_makes_it_good(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            with castor.initialize(net(), config(None)) as engine:
                one_step(engine, X)
                engine.save_checkpoint(folder)
                expected = bits(engine)
                with self.assertRaisesRegex(
                    castor.NonFiniteError, r'[ab]\.\w+ .*load a checkpoint.*_undo'
                ):
                    for _ in range(4):
                        one_step(engine, BAD)
                with self.assertRaises(RuntimeError):
                    one_step(engine, X)
                self.assertNotEqual(bits(engine), expected)
                engine.load_checkpoint(folder)
                self.assertEqual(bits(engine), expected)
                for _ in range(3):
                    one_step(engine, X)
                after = bits(engine)
            with castor.initialize(net(), config(None)) as engine:
                for _ in range(4):
                    one_step(engine, X)
                self.assertEqual(bits(engine), after)

    def test_closes_with_what_it_has(self) -> None:
        model = net()
        engine = castor.initialize(model, config(None))
        with self.assertRaises(castor.NonFiniteError):
            for _ in range(4):
                one_step(engine, BAD)
        engine.close(keep_values=True)
        self.assertFalse(torch.isfinite(model.a.weight).all())

    def test_rates_that_are_no_rates(self) -> None:
        with castor.initialize(net(), config(None)) as engine:
            for rate in (float("nan"), float("inf"), -1.0):
                engine.backward(engine(X))
                with self.assertRaisesRegex(ValueError, "a finite number of 0 or more"):
                    engine.step(rate)
                engine.abort()

    def test_configurations_that_say_nothing(self) -> None:
        for settings, words in (
            ({"on_nonfinite": "skip"}, "wants gradient_clipping, or"),
            ({"max_skipped_steps": 3}, "only beside"),
            ({"on_nonfinite": "warn"}, "expected one of"),
        ):
            with self.subTest(words), self.assertRaisesRegex(ValueError, words):
                castor.initialize(net(), config(None, **settings))


if __name__ == "__main__":
    unittest.main()
