"""What castor.plan foresees beside what the engine then takes."""

from __future__ import annotations

import random
import unittest
from typing import Any

import castor
import torch
import transformers
from torch import nn

from models import MAKERS
from promises_test import bytes_of, config_of
from small import Net, X, one_step


def taken(model: nn.Module, config: dict[str, Any], batches: list) -> dict[str, Any]:
    with castor.initialize(model, config) as engine:
        for _ in range(2):  # a step that is recorded, and one that follows it
            engine.train_batch(iter(batches))
        return engine.summary()


class Foreseen(unittest.TestCase):
    def hold(self, name: str) -> None:
        rng = random.Random(f"{name} plan")
        micro_batches = rng.choice([1, 2])
        case = MAKERS[name](rng, micro_batches)
        model = case.make().train()
        config = config_of(micro_batches, False, None)
        before = {k: bytes_of(v) for k, v in model.state_dict().items()}
        objects = [id(p) for p in model.parameters()]
        generator = torch.get_rng_state()
        foreseen = castor.plan(model, config, case.batches[0])
        self.assertTrue(torch.equal(torch.get_rng_state(), generator))
        after = {k: bytes_of(v) for k, v in model.state_dict().items()}
        self.assertEqual(after, before)
        self.assertEqual([id(p) for p in model.parameters()], objects)
        self.assertTrue(all(p.grad is None for p in model.parameters()))
        # What the first mixture's operators do depends on values, and grouped
        # products of fake tensors are in bf16 alone.
        real = name in ("mixture", "mixture-grouped")
        on = "real tensors" if real else "fake tensors"
        self.assertEqual(foreseen.traced_on, on, foreseen.note)
        summary = taken(model, config, case.batches)
        if name == "resnet":
            # Convolutions take more memory inside than all that a pass on fake
            # tensors shows.
            self.assertEqual(foreseen.summary()["parameters"], summary["parameters"])
            for key in ("smallest_device_budget_bytes", "device_peak_bytes"):
                self.assertLess(foreseen.summary()[key], 1.1 * summary[key])
        else:
            self.compare(foreseen, summary)

    def compare(self, foreseen: castor.Plan, summary: dict[str, Any]) -> None:
        self.assertEqual(foreseen.summary()["chunks"], summary["chunks"])
        self.assertEqual(foreseen.summary()["parameters"], summary["parameters"])
        for key in ("smallest_device_budget_bytes", "device_peak_bytes"):
            ratio = foreseen.summary()[key] / summary[key]
            self.assertLess(abs(ratio - 1), 0.1, f"{key} {ratio}")

    def test_checkpoints(self) -> None:
        # Checkpointing keeps the generator's state, 5 KiB for each block, which
        # no operator makes: it only does not show where blocks are larger.
        config = transformers.GPT2Config(
            vocab_size=100, n_embd=64, n_layer=3, n_head=2, n_positions=64,
            bos_token_id=0, eos_token_id=1,
        )
        ids = torch.randint(0, 100, (4, 64))
        batch = {"input_ids": ids, "labels": ids}
        for reentrant in (False, True):
            model = transformers.GPT2LMHeadModel(config).train()
            model.gradient_checkpointing_enable(
                gradient_checkpointing_kwargs={"use_reentrant": reentrant}
            )
            foreseen = castor.plan(model, {}, batch)
            self.assertEqual(foreseen.note, "")
            self.compare(foreseen, taken(model, {}, [batch]))


for _name in MAKERS:
    setattr(
        Foreseen,
        f"test_{_name.replace('-', '_')}",
        lambda self, name=_name: self.hold(name),
    )


class Plans(unittest.TestCase):
    def test_budgets_that_do_and_do_not(self) -> None:
        model = Net()
        least = castor.plan(model, config_of(1, False, None), [X])
        enough = least.smallest_device_budget_bytes
        for budget in (enough, enough - 1, 0):
            foreseen = castor.plan(model, config_of(1, False, budget), [X])
            self.assertEqual(foreseen.fits, budget == enough)
            self.assertEqual(foreseen.smallest_device_budget_bytes, enough)
            self.assertEqual(foreseen.summary()["device_budget_bytes"], budget)
            self.assertTrue(foreseen.estimated)
            self.assertIn("estimated: true", str(foreseen))
            self.assertIn(f"smallest_device_budget_bytes: {enough}", str(foreseen))
            self.assertTrue(foreseen.operator)
            if foreseen.fits:
                self.assertLessEqual(foreseen.device_peak_bytes, budget)
        config = config_of(1, False, 2 * enough)
        with castor.initialize(model, config) as engine:
            one_step(engine, X)

    def test_a_model_that_is_not_there(self) -> None:
        config = transformers.GPT2Config(
            vocab_size=50, n_embd=16, n_layer=2, n_head=2, n_positions=16,
            bos_token_id=0, eos_token_id=1,
        )
        ids = torch.zeros(2, 8, dtype=torch.long)
        batch = {"input_ids": ids, "labels": ids}

        def make() -> nn.Module:
            return transformers.GPT2LMHeadModel(config)

        with torch.device("meta"):
            on_meta = make()
        expected = castor.plan(make(), {}, batch).summary()
        self.assertEqual(castor.plan(make, {}, batch).summary(), expected)
        self.assertEqual(castor.plan(on_meta, {}, batch).summary(), expected)

    def test_a_model_larger_than_the_machine(self) -> None:
        def make() -> nn.Module:
            wide = [nn.Linear(1 << 15, 1 << 15, bias=False) for _ in range(2)]
            return nn.Sequential(*wide, nn.Linear(1 << 15, 1))

        config = config_of(1, False, 13 << 30)
        foreseen = castor.plan(make, config, [torch.zeros(1, 1 << 15)])
        self.assertTrue(foreseen.fits)
        # Three of 4 GiB each are there at once: one that is read, the gradient of
        # the one below it, and that gradient's place in its chunk.
        self.assertGreater(foreseen.smallest_device_budget_bytes, 12 << 30)
        self.assertLess(foreseen.device_peak_bytes, 13 << 30)

    def test_errors(self) -> None:
        with self.assertRaisesRegex(ValueError, "no sample_batch"):
            castor.plan(Net(), {})
        with self.assertRaisesRegex(ValueError, "bogus"):
            castor.plan(Net(), {"bogus": 1}, [X])
        with self.assertRaisesRegex(ValueError, "no configuration"):
            castor.plan(Net(), sample_batch=[X])
        with self.assertRaisesRegex(ValueError, "no torch.nn.Module"):
            castor.plan(lambda: 3, {}, [X])
        with self.assertRaisesRegex(ValueError, "host_memory"):
            castor.plan(Net(), {"memory": {"host_memory": 10}}, [X])
        # What is wrong with the batch comes from the model.
        with self.assertRaises(RuntimeError):
            castor.plan(Net(), {}, [X[:, :3]])

        class Asks(Net):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return super().forward(x) if x.sum() > -1e9 else x

        self.assertEqual(castor.plan(Asks(), {}, [X]).traced_on, "real tensors")
        with torch.device("meta"):
            model = Asks()
        with self.assertRaisesRegex(ValueError, "does not run on fake tensors"):
            castor.plan(model, {}, [X])


if __name__ == "__main__":
    unittest.main()
