"""The optimizers that TrainingArguments or the configuration name, in castor.Trainer
beside plain ones in transformers.Trainer."""

from __future__ import annotations

import unittest
from typing import Any

import torch
import transformers

from parity_test import TOLERANCE
from promises_test import bytes_of
from trainer_test import MEMORY, Rows, TrainerTest, gpt2


class PlainLamb(torch.optim.Optimizer):
    """LAMB as its paper has it, with DeepSpeed's limits of the trust ratio, the
    numbers of TrainerTest.arguments, and no weight decay."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                t = state["t"] = state.get("t", 0) + 1
                m = state["m"] = state.get("m", 0) * 0.9 + 0.1 * p.grad
                v = state["v"] = state.get("v", 0) * 0.999 + 0.001 * p.grad**2
                u = m / (1 - 0.9**t) / ((v / (1 - 0.999**t)).sqrt() + 1e-4)
                ratio = p.norm() / u.norm() if p.norm() * u.norm() > 0 else 1.0
                p -= group["lr"] * float(min(max(ratio, 0.01), 10.0)) * u


class PlainLion(torch.optim.Optimizer):
    """Lion as its paper has it (Chen et al. 2023, algorithm 2)."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                m = self.state[p].get("m", torch.zeros_like(p))
                c = 0.9 * m + 0.1 * p.grad
                p -= group["lr"] * (c.sign() + group["weight_decay"] * p)
                self.state[p]["m"] = 0.95 * m + 0.05 * p.grad


class Optimizers(TrainerTest):
    def trained_plainly(
        self, model: Any, optimizer: torch.optim.Optimizer, more: dict[str, Any]
    ) -> dict[str, torch.Tensor]:
        """The parameters after transformers.Trainer's steps at a constant rate."""
        constant = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
        plain = transformers.Trainer(
            model, self.arguments(**more), train_dataset=Rows(14),
            optimizers=(optimizer, constant),
        )
        plain.remove_callback(transformers.PrinterCallback)
        plain.train()
        return model.state_dict()

    def test_lamb_is_the_configurations(self) -> None:
        config = {**MEMORY, "optimizer": {"type": "Lamb"}}
        more: dict[str, Any] = dict(
            gradient_accumulation_steps=1, max_grad_norm=0.0, weight_decay=0.0,
            warmup_steps=0, lr_scheduler_type="constant", max_steps=4,
        )
        ours = self.trainer(config=config, **more)
        ours.train()
        model = gpt2()
        optimizer = PlainLamb(model.parameters(), {"lr": 1e-2})
        expected = self.trained_plainly(model, optimizer, more)
        for name, value in ours.engine.state_dict().items():
            error = (value - expected[name]).abs().max().item()
            self.assertLess(error, TOLERANCE, name)
        # Which one it shall be is said twice, and differently.
        self.refuses(
            ["optimizer.type", "Lamb", "optim "],
            lambda: self.trainer(config=config, optim="adamw_torch"),
        )

    def test_lion(self) -> None:
        more: dict[str, Any] = dict(
            gradient_accumulation_steps=1, max_grad_norm=0.5, weight_decay=0.1,
            warmup_steps=0, lr_scheduler_type="constant", max_steps=4,
            adam_beta2=0.95, learning_rate=1e-3,
        )
        ours = self.trainer(optim="lion_32bit", **more)
        ours.train()
        model = gpt2()
        plain = transformers.Trainer(
            model, self.arguments(**more), train_dataset=Rows(14)
        )
        decays = plain.get_decay_parameter_names(model)
        groups = [
            {
                "params": [
                    p for name, p in model.named_parameters() if (name in decays) == yes
                ],
                "weight_decay": 0.1 * yes,
            }
            for yes in (True, False)
        ]
        optimizer = PlainLion(groups, {"lr": 1e-3})
        expected = self.trained_plainly(model, optimizer, more)
        for name, value in ours.engine.state_dict().items():
            # Where gradients cancel, roundings decide a sign, as for the biases of
            # keys, which change no probability: up to two rates apart each time.
            error = (value - expected[name]).abs()
            self.assertLess(error.max().item(), 4 * 2.1e-3, name)
            if not name.endswith("c_attn.bias"):
                apart = (error > TOLERANCE).sum().item()
                self.assertLess(apart, 1 + error.numel() / 100, name)
        small = self.trainer(optim="lion_8bit", **more)
        small.train()
        self.assertNotEqual(
            [bytes_of(v) for v in small.engine.state_dict().values()],
            [bytes_of(v) for v in ours.engine.state_dict().values()],
        )
        self.refuses(
            ["optimizer.type", "Lion8bit", "optim "],
            lambda: self.trainer(
                config={**MEMORY, "optimizer": {"type": "Lion8bit"}},
                optim="lion_32bit",
            ),
        )

    def test_adafactor(self) -> None:
        more: dict[str, Any] = dict(
            gradient_accumulation_steps=1, max_grad_norm=0.5, weight_decay=0.1,
            warmup_steps=0, max_steps=4, learning_rate=1e-2, optim="adafactor",
        )
        ours = self.trainer(**more)
        ours.train()
        model = gpt2()
        plain = transformers.Trainer(
            model, self.arguments(**more), train_dataset=Rows(14)
        )
        plain.remove_callback(transformers.PrinterCallback)
        plain.train()
        expected = model.state_dict()
        for name, value in ours.engine.state_dict().items():
            error, limit = (value - expected[name]).abs(), TOLERANCE
            if name.endswith("c_attn.bias"):
                # Gradients of the keys' biases cancel, and Adafactor makes steps
                # of a rate even of what roundings leave of them. These are part of
                # the root mean square by which the others' steps are clipped.
                third = len(error) // 3
                error[third : 2 * third] = 0
                limit = 2e-3
            self.assertLess(error.max().item(), limit, name)
        # The configuration may have it scale, where `optim` does not forbid it.
        scaled = {**MEMORY, "optimizer": {
            "type": "Adafactor", "params": {"scale_parameter": True}}}
        self.trainer(config=scaled, max_steps=1).train()
        self.refuses(
            ["scale_parameter", "optim=adafactor"],
            lambda: self.trainer(config=scaled, optim="adafactor"),
        )

    def test_moments_in_8_bits(self) -> None:
        said = self.trainer(max_steps=3, optim="adamw_8bit")
        type_of = {**MEMORY, "optimizer": {"type": "AdamW8bit"}}
        configured = self.trainer(config=type_of, max_steps=3)
        wide = self.trainer(max_steps=3)
        bits = []
        for trainer in (said, configured, wide):
            trainer.train()
            bits.append([bytes_of(v) for v in trainer.engine.state_dict().values()])
        self.assertEqual(bits[0], bits[1])
        self.assertNotEqual(bits[0], bits[2])
        # Near to fp32's, whose bits they are not.
        for ours, theirs in zip(said.state.log_history, wide.state.log_history):
            if "loss" in ours:
                self.assertAlmostEqual(ours["loss"], theirs["loss"], delta=0.05)
        self.refuses(
            ["optimizer.type", "AdamW8bit", "optim "],
            lambda: self.trainer(config=type_of, optim="adamw_torch"),
        )


if __name__ == "__main__":
    unittest.main()
