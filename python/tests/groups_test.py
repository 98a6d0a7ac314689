"""Groups of parameters with rates and decays of their own, beside torch.optim's."""

from __future__ import annotations

import random
import tempfile
import unittest
from typing import Any

import castor
import torch
import transformers
from torch import nn

from models import MAKERS
from parity_test import TOLERANCE
from promises_test import bytes_of, config_of
from small import Net, X, engine_of, one_step
from trainer_test import TrainerTest, gpt2

GROUPS: list[dict[str, Any]] = [
    {"params": ["*attn*bias", "*ln_?.weight"], "lr": 0.0},
    {"params": ["*attn*", "*ln*"], "lr": 3e-3, "weight_decay": 0.3},
    {"params": ["*wpe*"], "weight_decay": 0.0},
]
SCHEDULE = {"type": "linear", "params": {"warmup_num_steps": 2, "total_num_steps": 8}}


def group_of(name: str) -> int:
    """By hand what GROUPS say of a parameter of GPT-2; 3: none of them has it."""
    if ("attn" in name and name.endswith("bias")) or name.endswith(
        ("ln_1.weight", "ln_2.weight", "ln_f.weight")
    ):
        return 0
    if "attn" in name or ".ln" in name:
        return 1
    return 2 if "wpe" in name else 3


def adamw(model: nn.Module, lr: float = 1e-3) -> torch.optim.AdamW:
    numbers = [(0.0, 0.01), (3e-3, 0.3), (lr, 0.0), (lr, 0.01)]
    groups = [
        {
            "params": [p for n, p in model.named_parameters() if group_of(n) == i],
            "lr": rate, "weight_decay": decay,
        }
        for i, (rate, decay) in enumerate(numbers)
    ]
    assert all(group["params"] for group in groups)
    return torch.optim.AdamW(groups, lr=lr, eps=1e-4)


def configuration(micro_batches: int, budget: int | None) -> dict[str, Any]:
    config = config_of(micro_batches, False, budget)
    config["optimizer"]["params"].update(lr=1e-3, eps=1e-4)
    config["optimizer"]["groups"] = GROUPS
    config["scheduler"] = SCHEDULE
    return config


class Groups(TrainerTest):
    def test_train_as_those_of_torch(self) -> None:
        case = MAKERS["gpt2"](random.Random(5), 12)
        plain = case.make().train()
        optimizer = adamw(plain)
        schedule = transformers.get_linear_schedule_with_warmup(optimizer, 2, 8)
        losses = []
        for i, batch in enumerate(case.batches):
            loss = plain(**batch).loss
            losses.append(loss.item())
            (loss / 2).backward()
            if i % 2:
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
        bits = budget = None
        for policy in ("auto", "cpu", "auto"):
            ours = []
            config = configuration(2, budget)
            config["memory"]["placement_policy"] = policy
            with castor.initialize(case.make(), config) as engine:
                for batch in case.batches:
                    loss = engine(**batch).loss
                    ours.append(loss.item())
                    engine.backward(loss)
                    engine.step()
                state = engine.state_dict()
                budget = engine.summary()["smallest_device_budget_bytes"]
            for mine, theirs in zip(ours, losses):
                self.assertAlmostEqual(mine, theirs, delta=TOLERANCE)
            for name, value in plain.state_dict().items():
                error = (state[name] - value).abs().max().item()
                self.assertLess(error, TOLERANCE, name)
            bits = bits or [bytes_of(value) for value in state.values()]
            self.assertEqual([bytes_of(value) for value in state.values()], bits)
        before = case.make().state_dict()
        for name in (n for n in before if group_of(n) == 0 and n in state):
            self.assertTrue(torch.equal(before[name], state[name]), name)

    def test_trainer_has_them_with_its_own_decay(self) -> None:
        def decays(trainer: transformers.Trainer) -> set[str]:
            return set(trainer.get_decay_parameter_names(trainer.model))

        def plain_trainer() -> transformers.Trainer:
            trainer = self.trainer(transformers.Trainer, max_steps=4)
            own = decays(trainer)
            optimizer = adamw(trainer.model, 1e-2)
            for group in list(optimizer.param_groups):
                # What Trainer lets decay, with the group's decay or its own.
                decay = 0.1 if group["weight_decay"] == 0.01 else group["weight_decay"]
                named = {id(p): n for n, p in trainer.model.named_parameters()}
                inside = [p for p in group["params"] if named[id(p)] in own]
                outside = [p for p in group["params"] if named[id(p)] not in own]
                group.update(params=inside, weight_decay=decay)
                if outside:
                    optimizer.add_param_group(
                        {"params": outside, "lr": group["lr"], "weight_decay": 0.0}
                    )
            trainer.optimizer = optimizer
            return trainer

        theirs = plain_trainer()
        ours = self.trainer(
            max_steps=4, config={"optimizer": {"groups": GROUPS}}, model=gpt2()
        )
        theirs.train()
        ours.train()
        state = ours.engine.state_dict()
        for name, value in theirs.model.state_dict().items():
            error = (state[name] - value).abs().max().item()
            self.assertLess(error, TOLERANCE, name)

    def test_given_rates_scale_all_groups(self) -> None:
        groups = [{"params": ["a.*"], "lr": 4e-2}]
        config = config_of(1, False, None)
        config["optimizer"]["groups"] = groups
        model, plain = Net(), Net()
        plain.load_state_dict(model.state_dict())
        optimizer = torch.optim.AdamW(
            [{"params": plain.a.parameters()}, {"params": plain.b.parameters()}]
        )
        with castor.initialize(model, config) as engine:
            for rate in (5e-3, 1e-2, 0.0):
                engine.backward(engine(X))
                engine.step(learning_rate=rate)
                plain(X).backward()
                optimizer.param_groups[0]["lr"] = 4 * rate
                optimizer.param_groups[1]["lr"] = rate
                optimizer.step()
                optimizer.zero_grad()
            for name, value in engine.state_dict().items():
                self.assertTrue(
                    torch.allclose(value, plain.state_dict()[name], atol=1e-6), name
                )

    def test_are_a_part_of_what_a_checkpoint_is_of(self) -> None:
        config = config_of(1, False, None)
        config["optimizer"]["groups"] = [{"params": ["a.*"], "lr": 4e-2}]
        with tempfile.TemporaryDirectory() as folder:
            with castor.initialize(Net(), config) as engine:
                one_step(engine, X)
                engine.save_checkpoint(folder)
            with castor.initialize(Net(), config) as engine:
                engine.load_checkpoint(folder)
            with engine_of(Net()) as engine:
                with self.assertRaisesRegex(castor.CheckpointError, "optimizer.groups"):
                    engine.load_checkpoint(folder)

    def test_that_match_nothing_are_refused(self) -> None:
        model = Net()
        model.b.bias.requires_grad_(False)
        config = config_of(1, False, None)
        for groups, words in (
            ([{"params": ["c.*"], "lr": 1}], r'groups\[0\].params: "c.\*" matches no'),
            ([{"params": ["b.bias"], "lr": 1}], '"b.bias" matches no parameter that is'),
            (
                [{"params": ["*"], "lr": 1}, {"params": ["a.*"], "lr": 2}],
                r"groups\[1\].params: .* earlier groups",
            ),
        ):
            config["optimizer"]["groups"] = groups
            for call in (castor.initialize, lambda m, c: castor.plan(m, c, X)):
                with self.assertRaisesRegex(ValueError, words):
                    call(model, config)
        config["optimizer"].pop("groups")
        config["optimizer"]["no_decay"] = ["*.bias", "*.ln.*"]
        for call in (castor.initialize, lambda m, c: castor.plan(m, c, X)):
            with self.assertRaisesRegex(
                ValueError, r'optimizer.no_decay: "\*.ln.\*" matches no parameter'
            ):
                call(model, config)


if __name__ == "__main__":
    unittest.main()
