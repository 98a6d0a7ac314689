"""P1, P2 and P5 over random small models, budgets, policies and chunk sizes.

P1: every budget that is enough gives the bits of the unlimited run. P2: every
budget down to 0 trains or is refused, with the model untouched. P5: the device
never holds more than the budget.

CASTOR_CASES: how many cases of each family (default 2). CASTOR_SEED: the first
seed (default 1).
"""

from __future__ import annotations

import os
import random
import unittest
from typing import Any

import castor
import torch
from torch import nn

from models import MAKERS, Case, vary

CASES = int(os.environ.get("CASTOR_CASES", "2"))
SEED = int(os.environ.get("CASTOR_SEED", "1"))
STEPS = 4


def config_of(micro_batches: int, bf16: bool, budget: int | None) -> dict[str, Any]:
    return {
        "gradient_accumulation_steps": micro_batches,
        "optimizer": {
            "type": "AdamW",
            "params": {"lr": 1e-2, "weight_decay": 0.01},
        },
        "bf16": {"enabled": bf16},
        "memory": {
            "device_memory": "unlimited" if budget is None else budget,
        },
    }


def draw_groups(rng: random.Random, model: nn.Module) -> list[dict[str, Any]]:
    """Groups of parameters with rates of their own, as a configuration has them."""
    names = [name for name, p in model.named_parameters() if p.requires_grad]
    if rng.random() < 0.5:
        return []
    chosen = rng.sample(names, min(len(names), rng.choice([1, 3, 8])))
    groups: list[dict[str, Any]] = [{"params": chosen, "lr": rng.choice([0.0, 3e-2])}]
    if rng.random() < 0.5 and len(chosen) < len(names):
        groups.append({"params": ["*"], "weight_decay": 0.3})
    return groups


def placement(rng: random.Random) -> dict[str, Any]:
    """Settings of memory that may change no bit."""
    return {
        "placement_policy": rng.choice(["auto", "auto", "cpu", "cuda"]),
        "chunk_size": rng.choice(["auto", "auto", 4096, 40_000]),
        "prefetch": rng.random() < 0.8,
    }


def kind_of(seed: int) -> str:
    """The type of a case's optimizer."""
    return random.Random(seed).choice(
        ["AdamW", "AdamW8bit", "AdamW16bit", "Lion", "Lion8bit", "SGD", "Adafactor"])


def train(
    case: Case, seed: int, micro_batches: int, bf16: bool, budget: int | None,
    memory: dict[str, Any], groups: list[dict[str, Any]],
) -> tuple[list[bytes], int]:
    """The bits of all losses and parameters, and the device's peak."""
    # Freed memory of the device is overwritten, so that reading it shows; not
    # without a budget, where that memory is all that the machine has.
    if budget is None:
        os.environ.pop("CASTOR_SCRIBBLE", None)
    else:
        os.environ["CASTOR_SCRIBBLE"] = "1"
    torch.manual_seed(seed)
    model = vary(random.Random(seed), case.make()).train()
    config = config_of(micro_batches, bf16, budget)
    config["memory"].update(memory)
    config["optimizer"]["groups"] = groups
    kind = kind_of(seed)
    config["optimizer"]["type"] = kind
    if kind == "SGD":
        config["optimizer"]["params"].update(
            momentum=0.9, nesterov=seed % 2 == 0)
    if kind == "Adafactor":
        config["optimizer"]["params"] = {"lr": 0.01, "relative_step": False}
        if seed % 2 == 0:
            config["optimizer"]["params"]["beta1"] = 0.9
    elif bf16 and "bit" not in kind:
        config["optimizer"]["state_format"] = {
            "master": random.Random(seed + 1).choice(["fp32", "split", "bf16"])}
    engine = castor.initialize(model, config)
    bits = []
    batches = iter(case.batches)
    for _ in range(len(case.batches) // micro_batches):
        bits.append(bytes_of(engine.train_batch(batches)))
        assert all(p.grad is None for p in model.parameters())
    bits += [bytes_of(value) for value in engine.state_dict().values()]
    peak = engine.summary()["device_peak_bytes"]
    engine.close()
    return bits, peak


def bytes_of(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


class Promises(unittest.TestCase):
    def hold(self, name: str) -> None:
        for seed in range(SEED, SEED + CASES):
            rng = random.Random(f"{name} {seed}")
            micro_batches = rng.choice([1, 1, 2, 3])
            bf16 = rng.random() < 0.3
            case = MAKERS[name](rng, STEPS * micro_batches)
            groups = draw_groups(rng, vary(random.Random(seed), case.make()))
            what = (
                f"{name} seed={seed} micro={micro_batches} bf16={bf16} groups={groups}"
            )
            expected, peak = train(case, seed, micro_batches, bf16, None, {}, groups)
            # Adafactor's sums are of a chunk's rows and columns, and so more in
            # larger chunks.
            enough = 16 if kind_of(seed) == "Adafactor" else 4
            budgets = [enough * peak, peak, 0]
            budgets += [int(2 * peak * rng.random() ** n) for n in (1, 2, 3)]
            for budget in budgets:
                memory = placement(rng)
                with self.subTest(f"{what} budget={budget} of {peak} {memory}"):
                    self.try_budget(
                        case, seed, micro_batches, bf16, budget, memory, groups,
                        expected, must_train=budget == budgets[0],
                    )

    def try_budget(
        self, case: Case, seed: int, micro_batches: int, bf16: bool, budget: int,
        memory: dict[str, Any], groups: list[dict[str, Any]], expected: list[bytes],
        must_train: bool,
    ) -> None:
        # A refusal's budget does for the steps until then. A later one may have
        # longer inputs, and be refused in turn.
        for _ in range(len(case.batches) + 1):
            try:
                bits, peak = train(
                    case, seed, micro_batches, bf16, budget, memory, groups
                )
            except castor.Refused as refused:
                self.assertFalse(must_train, refused)
                self.assertGreater(refused.smallest_device_budget_bytes, budget)
                self.assertTrue(refused.operator)
                if not refused.exact:
                    return
                budget = refused.smallest_device_budget_bytes
                continue
            self.assertEqual(bits, expected)
            self.assertLessEqual(peak, budget)
            return
        self.fail(f"refused once more than there are steps, last at {budget}")


for _name in MAKERS:
    setattr(
        Promises,
        f"test_{_name.replace('-', '_')}",
        lambda self, name=_name: self.hold(name),
    )


if __name__ == "__main__":
    unittest.main()
