"""`.grad` in on_pre_optimizer_step of transformers' callbacks: castor.Trainer beside
transformers.Trainer."""

from __future__ import annotations

import os
import tempfile
import unittest
from typing import Any

import castor
import torch
import transformers

from parity_test import TOLERANCE
from trainer_test import MEMORY, Rows, TrainerTest, gpt2
from two_ranks import do_as_a_rank, is_a_rank, on_two_ranks


class Looks(transformers.TrainerCallback):
    """Keeps what it sees; with `spoils` it writes there."""

    def __init__(self, spoils: bool = False) -> None:
        self.seen: list[dict[str, torch.Tensor]] = []
        self.spoils = spoils

    def on_pre_optimizer_step(
        self, args: Any, state: Any, control: Any, **more: Any
    ) -> None:
        model = more["model"]
        gradients = {n: p.grad for n, p in model.named_parameters()}
        self.seen.append({n: g.clone() for n, g in gradients.items() if g is not None})
        if self.spoils:
            next(model.parameters()).grad.zero_()


def seen_with(accumulation: int) -> list[dict[str, Any]]:
    """What a callback sees on one or two ranks, of as many rows in a step."""
    looks = Looks()
    trainer = castor.Trainer(
        gpt2(),
        transformers.TrainingArguments(
            os.environ["CASTOR_TEST_FOLDER"], use_cpu=True, report_to=[],
            disable_tqdm=True, save_strategy="no", per_device_train_batch_size=2,
            gradient_accumulation_steps=accumulation, max_steps=2,
        ),
        train_dataset=Rows(12), castor=MEMORY, callbacks=[looks],
    )
    trainer.train()
    trainer.engine.close()
    return [{n: g.tolist() for n, g in step.items()} for step in looks.seen]


class CallbackGradients(TrainerTest):
    def look(self, kind: Any, more: dict[str, Any], config: Any = MEMORY) -> Looks:
        looks = Looks()
        trainer = self.trainer(kind, config=config, **more)
        trainer.add_callback(looks)
        trainer.train()
        if kind is castor.Trainer:
            for name, parameter in trainer.model.named_parameters():
                self.assertIsNone(parameter.grad, name)
        return looks

    def test_are_those_of_the_update(self) -> None:
        cases: list[dict[str, Any]] = [
            {"max_grad_norm": 0.05},
            {"max_grad_norm": 0.0},
            # Its backward comes to a parameter more than once.
            {
                "gradient_checkpointing": True,
                "gradient_checkpointing_kwargs": {"use_reentrant": True},
            },
        ]
        for more in cases:
            with self.subTest(str(more)):
                # The tied embedding's gradient has two parts.
                plain = self.look(transformers.Trainer, more).seen
                ours = self.look(castor.Trainer, more).seen
                self.assertEqual(len(ours), 6)
                for theirs, own in zip(plain, ours, strict=True):
                    self.assertEqual(theirs.keys(), own.keys())
                    for name, gradient in theirs.items():
                        error = (own[name] - gradient).abs().max().item()
                        self.assertLess(error, TOLERANCE, name)
                        self.assertGreater(gradient.abs().max().item(), 0)

    def test_do_not_change_the_training(self) -> None:
        states = []
        for looks in (False, True):
            trainer = self.trainer()
            if looks:
                trainer.add_callback(Looks())
            trainer.train()
            states.append(trainer.engine.state_dict())
            peak = trainer.engine.summary()["device_peak_bytes"]
            self.assertLessEqual(peak, 2 << 20)
        for name, value in states[0].items():
            self.assertTrue(torch.equal(value, states[1][name]), name)

    def test_are_only_to_be_read(self) -> None:
        trainer = self.trainer()
        trainer.add_callback(Looks(spoils=True))
        with self.assertRaisesRegex(RuntimeError, "on_pre_optimizer_step has changed"):
            trainer.train()


    def test_are_those_of_all_ranks(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            ranks = on_two_ranks(__file__, "seen", folder=folder)
            os.environ["CASTOR_TEST_FOLDER"] = folder
            self.addCleanup(os.environ.pop, "CASTOR_TEST_FOLDER")
            one = seen_with(2)
        self.assertEqual(ranks[0], ranks[1])
        for step, theirs in enumerate(ranks[0]["seen"]):
            self.assertEqual(theirs.keys(), one[step].keys())
            for name, gradient in theirs.items():
                error = torch.tensor(gradient) - torch.tensor(one[step][name])
                self.assertLess(error.abs().max().item(), TOLERANCE, name)


if __name__ == "__main__":
    if is_a_rank():
        do_as_a_rank({"seen": lambda: seen_with(1)})
    else:
        unittest.main()
