"""The engine beside plain PyTorch with torch.optim.AdamW.

Tolerance. Both compute the same forward and backward operators in fp32; only
the update is written differently, so that after one step a parameter differs
by a few roundings of values of its own size, and of its step. With u = 2^-24:

  - Rounding the new value: at most u |w| each for decay and step, and both
    programs round differently: 4 u |w| per step, |w| < 4 in these models.
  - The step lr m^ / (sqrt(v^) + eps) is at most lr in size once eps is far
    below sqrt(v^); its own relative error is some 20 roundings: 20 u lr.
    Where a gradient is of eps's size, a difference of roundings in it moves
    the step by as much as lr; eps = 1e-4 is chosen far above gradients'
    roundings (1e-7), so that there a relative error d of a gradient
    moves the step by at most lr d.

So a step adds at most E = 16 u + 20 u lr to each parameter. The loss L has a
gradient of norm G, so that |dL| <= G |dw|_2 <= G sqrt(N) E steps. N < 20,000,
G < 10, 20 steps and E ~ 1e-6 give 10 x 141 x 1e-6 x 20 = 0.03 when all
roundings conspire; they are independent, so that sqrt(steps) and 1 take the
place of steps and sqrt(N): 10 x 1e-6 x 4.5 = 4.5e-5. The tests take 2e-4: four
times that, since errors also grow by the training's own dynamics.
"""

from __future__ import annotations

import random
import unittest

import castor
import torch
from torch import nn

from models import MAKERS, vary
from promises_test import config_of

STEPS = 20
TOLERANCE = 2e-4


def plain(model: nn.Module, batches: list, micro_batches: int) -> list[float]:
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-3, weight_decay=0.01, eps=1e-4)
    losses = []
    for first in range(0, len(batches), micro_batches):
        optimizer.zero_grad()
        total = 0.0
        for index, batch in enumerate(batches[first : first + micro_batches]):
            # Dropout draws as in the engine.
            step = 1 + first // micro_batches
            torch.manual_seed(castor.generator_seed(1234, step, index))
            output = model(**batch)
            loss = output if isinstance(output, torch.Tensor) else output.loss
            (loss / micro_batches).backward()
            total += loss.item()
        optimizer.step()
        losses.append(total / micro_batches)
    return losses


class Parity(unittest.TestCase):
    def hold(self, name: str) -> None:
        rng = random.Random(name)
        micro_batches = rng.choice([1, 2])
        case = MAKERS[name](rng, micro_batches)
        batches = case.batches * STEPS  # the same batch, so that losses sink
        model = vary(random.Random(name), case.make()).train()
        expected = plain(model, batches, micro_batches)
        config = config_of(micro_batches, False, None)
        config["optimizer"]["params"].update(lr=1e-3, eps=1e-4)
        model = vary(random.Random(name), case.make()).train()
        with castor.initialize(model, config) as engine:
            iterator = iter(batches)
            actual = [engine.train_batch(iterator).item() for _ in range(STEPS)]
            self.assertEqual(engine.global_steps, STEPS)
        self.assertLess(actual[-1], actual[0])
        for step, (ours, theirs) in enumerate(zip(actual, expected)):
            self.assertAlmostEqual(
                ours, theirs, delta=TOLERANCE, msg=f"{name} step {step}"
            )


for _name in MAKERS:
    setattr(
        Parity,
        f"test_{_name.replace('-', '_')}",
        lambda self, name=_name: self.hold(name),
    )


if __name__ == "__main__":
    unittest.main()
