"""fp16 and its loss scale, against PyTorch with a master copy."""

from __future__ import annotations

import tempfile
import unittest
from typing import Any

import castor
import torch
from torch import nn

from small import bits

STEPS = 12
LR, DECAY = 1e-3, 0.01
INPUTS = torch.randn(8, 16, generator=torch.Generator().manual_seed(5))


class Net(nn.Module):
    """Its loss is large at the fourth step: that one overflows."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(16, 32)
        self.b = nn.Linear(32, 1)

    def forward(self, x: torch.Tensor, factor: float = 1.0) -> torch.Tensor:
        return self.b(torch.tanh(self.a(x))).float().square().mean() * factor


def net() -> Net:
    torch.manual_seed(0)
    return Net()


def factor_of(step: int) -> float:
    return 1e4 if step == 3 else 1.0


def settings(micro_batches: int, policy: str = "auto", **fp16: Any) -> dict[str, Any]:
    return {
        "fp16": {"enabled": True, "hysteresis": 1, **fp16},
        "gradient_accumulation_steps": micro_batches,
        "gradient_clipping": 0.5,
        "optimizer": {"type": "AdamW", "params": {"lr": LR, "weight_decay": DECAY}},
        "memory": {"placement_policy": policy},
    }


def plain(micro_batches: int) -> tuple[list[float], list[int], list[torch.Tensor]]:
    """As torch.amp.GradScaler scales, with its parameters in fp16 and the
    optimizer's in fp32. Returns losses, the steps that were skipped, values."""
    model = net().half()
    masters = [p.detach().float().requires_grad_() for p in net().parameters()]
    optimizer = torch.optim.AdamW(masters, lr=LR, weight_decay=DECAY)
    scale, losses, skipped = 65536.0, [], []
    for step in range(STEPS):
        sums = [torch.zeros_like(m) for m in masters]
        total = 0.0
        for m in range(micro_batches):
            model.zero_grad()
            loss = model((INPUTS + m).half(), factor_of(step))
            (loss.float() / micro_batches * scale).backward()
            total += loss.item() / micro_batches
            for s, p in zip(sums, model.parameters()):
                s += p.grad.float()
        losses.append(total)
        if not all(torch.isfinite(s).all() for s in sums):
            skipped.append(step)
            scale /= 2
            continue
        for master, s in zip(masters, sums):
            master.grad = s / scale
        nn.utils.clip_grad_norm_(masters, 0.5)
        optimizer.step()
        with torch.no_grad():
            for p, master in zip(model.parameters(), masters):
                p.copy_(master)
    return losses, skipped, [m.detach() for m in masters]


def managed(
    config: dict[str, Any], saved_at: int = -1
) -> tuple[list[float], list[int], list[torch.Tensor], list[bytes]]:
    losses, skipped = [], []
    with tempfile.TemporaryDirectory() as folder:
        engine = castor.initialize(net(), config)
        for step in range(STEPS):
            if step == saved_at:
                engine.save_checkpoint(folder)
                engine.close()
                engine = castor.initialize(net(), config)
                engine.load_checkpoint(folder)
            before, total = engine.summary()["skipped_steps"], 0.0
            micro_batches = config["gradient_accumulation_steps"]
            for m in range(micro_batches):
                loss = engine(INPUTS + m, factor_of(step))
                total += loss.item() / micro_batches
                engine.backward(loss)
                engine.step()
            losses.append(total)
            if engine.summary()["skipped_steps"] > before:
                skipped.append(step)
        state, values = list(engine.state_dict().values()), bits(engine)
        engine.close()
    return losses, skipped, state, values


class Fp16(unittest.TestCase):
    def test_skips_and_trains_as_pytorch(self) -> None:
        for micro_batches in (1, 2):
            with self.subTest(micro_batches=micro_batches):
                losses, skipped, masters = plain(micro_batches)
                config = settings(micro_batches)
                ours, ours_skipped, state, values = managed(config)
                self.assertEqual(ours_skipped, skipped)
                self.assertIn(3, skipped)
                self.assertLess(len(skipped), STEPS - 4)
                # Masters differ by roundings of fp32, so now and then their
                # parameters by one of fp16: 2^-11 of their size.
                torch.testing.assert_close(ours, losses, rtol=2e-3, atol=1e-6)
                for a, b in zip(state, masters, strict=True):
                    torch.testing.assert_close(a, b, rtol=1e-3, atol=2e-4)
                for policy in ("cpu", "cuda"):
                    placed = managed(settings(micro_batches, policy))
                    self.assertEqual(placed[3], values)
                self.assertEqual(managed(config, saved_at=5)[3], values)

    def test_the_scale_is_told_and_ends_at_its_smallest(self) -> None:
        config = settings(1, initial_scale_power=1, min_loss_scale=1)
        with castor.initialize(net(), config) as engine:
            self.assertEqual(engine.summary()["loss_scale"], 2)
            engine.backward(engine(INPUTS, 1e30))
            engine.step()
            self.assertEqual(engine.summary()["loss_scale"], 1)
            before = bits(engine)
            engine.backward(engine(INPUTS, 1e30))
            with self.assertRaisesRegex(castor.NonFiniteError, "fp16.min_loss_scale"):
                engine.step()
            self.assertEqual(bits(engine), before)
            engine.backward(engine(INPUTS))
            engine.step()
            self.assertNotEqual(bits(engine), before)

    def test_a_plan(self) -> None:
        plan = castor.plan(net(), settings(1), [INPUTS])
        whole = castor.plan(net(), {}, [INPUTS])
        self.assertLess(plan.resident_bytes, whole.resident_bytes)


if __name__ == "__main__":
    unittest.main()
