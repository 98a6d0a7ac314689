"""Several threads with one engine."""

from __future__ import annotations

import threading
import unittest
from collections.abc import Callable
from typing import Any

import castor
import torch
from torch import nn

from promises_test import config_of
from small import X, bits, one_step

STEPS = 6


def net() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 1))


def loss_of(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return model(x).square().mean()


class Wrapped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = net()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return loss_of(self.net, x)


def in_thread(work: Callable[[], Any]) -> Any:
    """What it returns or raises in a thread of its own, which has ended then."""
    result: list[Any] = []

    def run() -> None:
        try:
            result.append(work())
        except Exception as error:
            result.append(error)

    thread = threading.Thread(target=run, name="second")
    thread.start()
    thread.join()
    return result[0]


class Threads(unittest.TestCase):
    def setUp(self) -> None:
        with castor.initialize(Wrapped(), config_of(1, False, None)) as engine:
            for _ in range(STEPS):
                one_step(engine, X)
            self.expected = bits(engine)

    def test_second_thread_changes_nothing_of_a_step(self) -> None:
        with castor.initialize(Wrapped(), config_of(1, False, None)) as engine:

            def evaluate() -> torch.Tensor:
                with torch.no_grad():
                    return engine(X)

            calls: list[Callable[[], Any]] = [
                evaluate,
                lambda: engine(X),
                lambda: engine.backward(torch.zeros((), requires_grad=True)),
                engine.step,
                engine.abort,
                engine.close,
            ]
            for _ in range(STEPS):
                loss = engine(X)
                for call in calls:
                    error = in_thread(call)
                    self.assertIsInstance(error, RuntimeError)
                    self.assertIn('the thread "MainThread" is in a step', str(error))
                engine.backward(loss)
                engine.step()
                # Between steps it may, and sees the same values.
                engine.eval()
                self.assertTrue(torch.equal(in_thread(evaluate), evaluate()))
                engine.train()
            self.assertEqual(bits(engine), self.expected)

    def test_step_of_a_thread_that_has_ended(self) -> None:
        with castor.initialize(Wrapped(), config_of(1, False, None)) as engine:
            in_thread(lambda: engine(X))
            engine.abort()
            for _ in range(STEPS):
                one_step(engine, X)
            self.assertEqual(bits(engine), self.expected)

    def test_threads_that_train_at_once(self) -> None:
        with castor.initialize(Wrapped(), config_of(1, False, None)) as engine:
            done = threading.Lock()
            taken = 0
            refused: list[str] = []

            def train() -> None:
                nonlocal taken
                while True:
                    with done:
                        if taken == STEPS:
                            return
                    try:
                        loss = engine(X)
                    except RuntimeError as error:
                        refused.append(str(error))
                        continue
                    engine.backward(loss)
                    with done:
                        if taken == STEPS:
                            engine.abort()
                            return
                        taken += 1
                        engine.step()

            threads = [threading.Thread(target=train) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(bits(engine), self.expected)
            for message in refused:
                self.assertIn("is in a step or a pass of this engine", message)


if __name__ == "__main__":
    unittest.main()
