"""Architectures of transformers under castor: each gives what plain PyTorch gives,
or is refused in one line. docs/architectures.md has the result.

`python architectures_test.py --write` writes that page. The tolerance is that of
parity_test.
"""

from __future__ import annotations

import sys
import unittest
from pathlib import Path
from typing import Any

import castor
import numpy
import torch
import transformers

from architectures import ALL, Architecture
from parity_test import TOLERANCE

PAGE = Path(__file__).resolve().parents[2] / "docs" / "architectures.md"
STEPS = 3  # one is recorded, and two follow a plan
RATE = {"lr": 1e-3, "weight_decay": 0.01, "eps": 1e-4}
CLIPPING, SEED = 1.0, 7

HEAD = """# Architectures under PyTorch

Made by `python/tests/architectures_test.py`, which trains a small model of each with random weights, in
fp32, by plain PyTorch and by [Castor](pytorch.md): *equal* says that losses and gradient norms of each
step are the same, and parameters at the end, within the roundings of an update in fp32. What is refused is so
in this line. Models that are not here may train as well: nothing knows a model by its name.
"""
TABLE = """
| class of `transformers` | |
|---|---|
"""


def _loss(output: Any) -> torch.Tensor:
    loss: torch.Tensor = output.loss
    return loss


def _plain(made: Architecture) -> tuple[list[float], dict[str, torch.Tensor]]:
    model = made.make().train()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, **RATE)
    figures = []
    for step in range(1, STEPS + 1):
        # Dropout draws as in the engine; NumPy's draws are the program's.
        torch.manual_seed(castor.generator_seed(SEED, step, 0))
        numpy.random.seed(step)
        loss = _loss(model(**made.batch(step)))
        torch.manual_seed(castor.generator_seed(SEED, step, 0, 1))
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(trained, CLIPPING)
        optimizer.step()
        optimizer.zero_grad()
        figures += [loss.item(), norm.item()]
    return figures, model.state_dict()


def _ours(made: Architecture) -> tuple[list[float], dict[str, torch.Tensor]]:
    config = {
        "seed": SEED, "gradient_clipping": CLIPPING, "memory": {},
        "optimizer": {"type": "AdamW", "params": RATE},
    }
    figures = []
    with castor.initialize(made.make(), config) as engine:
        for step in range(1, STEPS + 1):
            numpy.random.seed(step)
            loss = _loss(engine(**made.batch(step)))
            engine.backward(loss)
            engine.step()
            figures += [loss.item(), float(engine.gradient_norm or 0)]
        return figures, engine.state_dict()


def result_of(made: Architecture) -> str:
    """What the page says of it."""
    try:
        figures, state = _ours(made)
    except (ValueError, RuntimeError) as error:
        refusal = str(error)
        assert refusal.startswith("castor") and "\n" not in refusal, refusal
        return f"refused: {refusal.partition(': ')[2]}"
    expected, values = _plain(made)
    for ours, theirs in zip(figures, expected, strict=True):
        # Norms and losses are of any size.
        assert abs(ours - theirs) < TOLERANCE * max(1, abs(theirs)), (figures, expected)
    for name, value in values.items():
        if value.is_floating_point():
            error = (state[name] - value).abs().max().item()
            assert error < TOLERANCE, (name, error)
    return "equal"


class Architectures(unittest.TestCase):
    def test_page_has_what_they_give(self) -> None:
        rows = PAGE.read_text(encoding="utf-8").removeprefix(HEAD + TABLE).splitlines()
        self.assertEqual(len(rows), len(ALL))
        for made, row in zip(ALL, rows):
            with self.subTest(made.row):
                self.assertEqual(f"| {made.row} | {result_of(made)} |", row)


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    if sys.argv[1:] == ["--write"]:
        page = HEAD + TABLE
        for each in ALL:
            try:
                page += f"| {each.row} | {result_of(each)} |\n"
            except Exception as error:
                page += f"| {each.row} | WRONG {error!r} |\n"
        PAGE.write_text(page, encoding="utf-8")
    else:
        unittest.main()
