"""Configurations of other systems: DeepSpeed's, and scripts that are written for
it, without DeepSpeed; and those of transformers' arguments."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import unittest
import warnings
from pathlib import Path
from typing import Any

import castor
import torch
import transformers

from parity_test import TOLERANCE
from trainer_test import Rows, gpt2

# As transformers' documentation has it, but for fp16.
AUTO: dict[str, Any] = {
    "bf16": {"enabled": "auto"},
    "optimizer": {
        "type": "AdamW",
        "params": {
            "lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto",
        },
    },
    "scheduler": {
        "type": "WarmupDecayLR",
        "params": {
            "warmup_min_lr": "auto", "warmup_max_lr": "auto",
            "warmup_num_steps": "auto", "total_num_steps": "auto",
            "warmup_type": "linear",
        },
    },
    "zero_optimization": {
        "stage": 3,
        "offload_optimizer": {"device": "cpu", "pin_memory": True},
        "overlap_comm": True,
        "reduce_bucket_size": "auto",
    },
    "gradient_accumulation_steps": "auto",
    "gradient_clipping": "auto",
    "steps_per_print": 2000,
    "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto",
    "wall_clock_breakdown": False,
}
PLAIN: dict[str, Any] = {
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": 2,
    "optimizer": {"type": "Adam", "params": {"lr": 1e-2, "weight_decay": 0.1}},
    "zero_optimization": {"stage": 2, "cpu_offload": True},
    "gradient_clipping": 1.0,
}
WARMUP: dict[str, Any] = {
    "type": "WarmupLR",
    "params": {"warmup_max_lr": 1e-2, "warmup_num_steps": 2},
}


def told(caught: list[warnings.WarningMessage]) -> str:
    return "\n".join(str(each.message) for each in caught)


def batches(count: int) -> list[dict[str, torch.Tensor]]:
    rows = Rows(2 * count)
    return [
        {
            name: torch.stack([rows[2 * i][name], rows[2 * i + 1][name]])
            for name in ("input_ids", "labels")
        }
        for i in range(count)
    ]


class DeepSpeedTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.file = Path(folder.name) / "ds_config.json"

    def arguments(self, **more: Any) -> Any:
        keys = dict(
            output_dir=self.folder, use_cpu=True, report_to=[], save_strategy="no",
            disable_tqdm=True, logging_strategy="steps", logging_steps=1,
            per_device_train_batch_size=2, gradient_accumulation_steps=2,
            num_train_epochs=2, learning_rate=1e-2, weight_decay=0.1,
            warmup_steps=3, max_grad_norm=0.5, adam_beta2=0.95,
        )
        return transformers.TrainingArguments(**{**keys, **more})

    def plain_steps(self, model: Any, rates: list[float]) -> None:
        """What PyTorch makes of PLAIN, which is AdamW with all decaying."""
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)
        model.train()
        each = iter(batches(2 * len(rates)))
        for rate in rates:
            for _ in range(2):
                (model(**next(each)).loss / 2).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.param_groups[0]["lr"] = rate
            optimizer.step()
            optimizer.zero_grad()

    def assert_same(self, model: Any, state: dict[str, torch.Tensor]) -> None:
        for name, value in model.state_dict().items():
            torch.testing.assert_close(state[name], value, atol=TOLERANCE, rtol=0)

    def test_initialize_reads_its_file(self) -> None:
        self.file.write_text(json.dumps(PLAIN), encoding="utf-8")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            engine = castor.initialize(gpt2(), self.file)
        self.assertIn("these keys mean nothing here", told(caught))
        self.assertIn("zero_optimization", told(caught))
        for batch in batches(6):
            engine.backward(engine(**batch).loss)
            engine.step()
        plain = gpt2()
        self.plain_steps(plain, [1e-2] * 3)
        self.assert_same(plain, engine.state_dict())

    def test_auto_counts_as_absent_where_nobody_fills_it_in(self) -> None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            config = {**AUTO, "scheduler": None}
            with castor.initialize(gpt2(), config) as engine:
                self.assertEqual(engine.gradient_accumulation_steps, 1)
                self.assertEqual(engine.learning_rate, 1e-3)
        self.assertIn('"auto" counts as absent: train_batch_size', told(caught))

    def test_initialize_says_all_that_is_in_the_way(self) -> None:
        config = {
            **PLAIN,
            "optimizer": {"type": "OneBitAdam", "params": {"freeze_step": 3}},
            "sparse_attention": {"mode": "fixed"},
            "zero_optimisation": {},
        }
        with self.assertRaises(ValueError) as caught:
            castor.initialize(gpt2(), config)
        for what in ("optimizer.type: ", "sparse_attention: ", "zero_optimisation: "):
            self.assertIn(f"castor.initialize: config: {what}", str(caught.exception))

    def test_trainer_fills_auto_in(self) -> None:
        self.file.write_text(json.dumps(AUTO), encoding="utf-8")
        rows = Rows(24)
        plain = transformers.Trainer(gpt2(), self.arguments(), train_dataset=rows)
        # As DeepSpeed's optimizer has it, all parameters decay.
        plain.get_decay_parameter_names = lambda model: [
            name for name, _ in model.named_parameters()
        ]
        plain.train()
        args = self.arguments(deepspeed=str(self.file))
        self.assertEqual(args.deepspeed, str(self.file))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            ours = castor.Trainer(gpt2(), args, train_dataset=rows)
        self.assertIn("zero_optimization", told(caught))
        self.assertNotIn("counts as absent", told(caught))
        self.assertNotIn("weight_decay", told(caught))
        ours.train()
        for expected, actual in zip(plain.state.log_history, ours.state.log_history):
            self.assertEqual(expected.get("step"), actual.get("step"))
            for key in ("loss", "learning_rate"):
                if key in expected:
                    self.assertAlmostEqual(expected[key], actual[key], places=4)
        # WarmupDecayLR falls as transformers' linear schedule does.
        self.assertEqual(ours.state.global_step, 12)
        self.assert_same(plain.model, ours.engine.state_dict())

    def test_trainer_refuses_what_contradicts_arguments(self) -> None:
        cases = [
            ({"train_batch_size": 7}, "train_batch_size is 7"),
            ({"gradient_clipping": 2.0}, "max_grad_norm is 0.5"),
            (
                {"optimizer": {"type": "AdamW", "params": {"lr": 0.5}}},
                "learning_rate is 0.01",
            ),
            ({"fp16": {"enabled": True}}, "fp16 is false"),
            ({"sparse_attention": {"mode": "fixed"}}, "sparse_attention"),
        ]
        for change, expected in cases:
            with self.subTest(expected), self.assertRaisesRegex(ValueError, expected):
                castor.Trainer(gpt2(), self.arguments(deepspeed={**AUTO, **change}))
        trainer = castor.Trainer(
            gpt2(),
            self.arguments(
                deepspeed={
                    **AUTO,
                    "scheduler": {
                        "type": "WarmupDecayLR",
                        "params": {"total_num_steps": 99, "warmup_num_steps": "auto"},
                    },
                }
            ),
            train_dataset=Rows(24),
        )
        with self.assertRaisesRegex(ValueError, "total_num_steps is 99"):
            trainer.train()
        with self.assertRaisesRegex(ValueError, "castor=... and TrainingArguments"):
            castor.Trainer(gpt2(), self.arguments(deepspeed=AUTO), castor={})

    def test_trainer_says_where_deepspeeds_default_stands(self) -> None:
        config = {
            "train_micro_batch_size_per_gpu": "auto",
            "optimizer": {"type": "Adam", "params": {"lr": "auto"}},
            "zero_optimization": {"stage": 1},
        }
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            trainer = castor.Trainer(gpt2(), self.arguments(deepspeed=config))
        self.assertIn("optimizer.params.weight_decay is not in", told(caught))
        self.assertIn("gradient_clipping is not in DeepSpeed's", told(caught))
        self.assertEqual(trainer._castor_config["gradient_clipping"], 0.0)

    def test_arguments_without_castors_trainer_name_deepspeed(self) -> None:
        args = self.arguments(deepspeed=AUTO)
        with self.assertRaisesRegex(ImportError, "(?i)deepspeed"):
            transformers.Trainer(gpt2(), args)

    def test_scripts_of_deepspeed_run(self) -> None:
        model = gpt2()
        engine, optimizer, loader, schedule = castor.deepspeed_initialize(
            args=argparse.Namespace(local_rank=0),
            model=model,
            model_parameters=[p for p in model.parameters() if p.requires_grad],
            training_data=Rows(8),
            config={
                **PLAIN,
                "scheduler": WARMUP,
            },
        )
        self.assertIs(engine.module, model)
        self.assertEqual(engine.gradient_accumulation_steps(), 2)
        self.assertEqual(engine.train_micro_batch_size_per_gpu(), 2)
        self.assertEqual(engine.train_batch_size(), 4)
        self.assertEqual(len(list(loader)), 4)
        rates = []
        for batch in batches(6):
            batch = {k: v.to(engine.device) for k, v in batch.items()}
            loss = engine(**batch).loss
            if engine.is_gradient_accumulation_boundary():
                rates.append(engine.get_lr()[0])
                self.assertEqual(optimizer.param_groups[0]["lr"], rates[-1])
                self.assertEqual(schedule.get_last_lr(), rates[-1:])
            engine.backward(loss)
            engine.step()
            optimizer.zero_grad()
        self.assertEqual(rates, [0.0, 1e-2, 1e-2])
        plain = gpt2()
        self.plain_steps(plain, rates)
        self.assert_same(plain, engine.state_dict())
        self.assertTrue(engine.save_checkpoint(self.folder, "at-3", {"epoch": 1}))
        path, state = engine.load_checkpoint(self.folder, "at-3")
        self.assertEqual(state, {"epoch": 1})
        self.assertIn("at-3", path)
        with self.assertRaisesRegex(RuntimeError, "call engine.step"):
            optimizer.step()

    def test_a_scripts_own_optimizer_and_schedule_are_kept_to(self) -> None:
        model = gpt2()
        decaying = [p for p in model.parameters() if p.ndim > 1]
        others = [p for p in model.parameters() if p.ndim <= 1]
        groups = [
            {"params": decaying, "weight_decay": 0.3},
            {"params": others, "weight_decay": 0.0},
        ]
        own = torch.optim.AdamW(groups, lr=1e-2, betas=(0.8, 0.9))
        halved = torch.optim.lr_scheduler.StepLR(own, 1, gamma=0.5)
        engine, optimizer, _, schedule = castor.deepspeed_initialize(
            model=model, optimizer=own, lr_scheduler=halved,
            config={"train_batch_size": 2, "zero_optimization": {"stage": 1}},
        )
        self.assertIs(schedule, halved)
        for batch in batches(3):
            engine.backward(engine(**batch).loss)
            engine.step()
        self.assertAlmostEqual(optimizer.param_groups[0]["lr"], 1e-2 / 8)
        plain = gpt2()
        theirs = torch.optim.AdamW(
            [
                {"params": [p for p in plain.parameters() if p.ndim > 1],
                 "weight_decay": 0.3},
                {"params": [p for p in plain.parameters() if p.ndim <= 1],
                 "weight_decay": 0.0},
            ],
            lr=1e-2, betas=(0.8, 0.9),
        )
        again = torch.optim.lr_scheduler.StepLR(theirs, 1, gamma=0.5)
        plain.train()
        for batch in batches(3):
            plain(**batch).loss.backward()
            theirs.step()
            again.step()
            theirs.zero_grad()
        self.assert_same(plain, engine.state_dict())
        with castor.deepspeed_initialize(
            model=gpt2(), optimizer=lambda p: torch.optim.AdamW(p, lr=1e-2),
            config={**PLAIN, "scheduler": WARMUP},
        )[0] as engine:
            # The configuration's schedule, as in DeepSpeed.
            self.assertEqual(engine.get_lr(), [0.0])
            for batch in batches(4):
                engine.backward(engine(**batch).loss)
                engine.step()
            self.assertEqual(engine.get_lr(), [1e-2])
        with self.assertRaisesRegex(ValueError, "has a scheduler, and there is lr_"):
            castor.deepspeed_initialize(
                model=gpt2(), config={**PLAIN, "scheduler": WARMUP},
                lr_scheduler=lambda o: torch.optim.lr_scheduler.StepLR(o, 1),
            )
        with self.assertRaisesRegex(ValueError, "sparse_attention"):
            castor.deepspeed_initialize(
                model=gpt2(), optimizer=lambda p: torch.optim.AdamW(p, lr=1e-2),
                config={**PLAIN, "sparse_attention": {"mode": "fixed"}},
            )
        with self.assertRaisesRegex(ValueError, "optimizer is a SGD"):
            castor.deepspeed_initialize(
                model=gpt2(), optimizer=lambda p: torch.optim.SGD(p, lr=1.0),
                config=PLAIN,
            )

    def test_groups_of_parameters_have_rates_of_their_own(self) -> None:
        def engine_of(
            *groups: dict[str, Any], **params: float
        ) -> castor.DeepSpeedEngine:
            model = gpt2()
            parameters = list(model.parameters())
            parts = [parameters[:3], parameters[3:]]
            config = {**PLAIN, "optimizer": {"type": "AdamW", "params": params}}
            return castor.deepspeed_initialize(
                model=model, config=config,
                model_parameters=[
                    {"params": part, **group} for part, group in zip(parts, groups)
                ],
            )[0]

        for groups, params, rates in (
            (({"lr": 0.5}, {"lr": 0.5}), {}, [0.5, 0.5]),
            (({"lr": 0.5}, {}), {"lr": 0.25}, [0.5, 0.25]),
            (({}, {}), {"lr": 0.25}, [0.25, 0.25]),
            (({"lr": 0.0}, {"lr": 0.5}), {}, [0.0, 0.5]),
            (({"lr": 0.5}, {"lr": 0.5}), {"lr": 1.0}, [0.5, 0.5]),
        ):
            with engine_of(*groups, **params) as engine:
                self.assertEqual(engine.get_lr(), rates)
        # No group's rate tells which one it is a multiple of.
        with engine_of({"lr": 0.0}, {"lr": 0.0}, lr=0.25) as engine:
            self.assertEqual(engine.optimizer.rate, 0.0)
        with self.assertRaisesRegex(ValueError, "has lr 0.5, and another none"):
            engine_of({"lr": 0.5}, {})

        def optimizer_of(model: Any) -> torch.optim.Optimizer:
            parameters = list(model.parameters())
            return torch.optim.AdamW(
                [
                    {"params": parameters[:3], "lr": 1e-2, "weight_decay": 0.2},
                    {"params": parameters[3:8], "lr": 0.0},
                    {"params": parameters[8:]},
                ],
                lr=1e-3,
            )

        def schedule_of(optimizer: Any) -> Any:
            rise = [0.0, 0.25, 0.5, 1.0, 1.0]
            return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: rise[i])

        model, plain = gpt2(), gpt2()
        own = optimizer_of(model)
        engine, *_ = castor.deepspeed_initialize(
            model=model, optimizer=own, lr_scheduler=schedule_of(own),
            config={"train_batch_size": 2},
        )
        theirs = optimizer_of(plain)
        again = schedule_of(theirs)
        plain.train()
        for batch in batches(4):
            self.assertEqual(engine.get_lr(), again.get_last_lr())
            engine.backward(engine(**batch).loss)
            engine.step()
            plain(**batch).loss.backward()
            theirs.step()
            again.step()
            theirs.zero_grad()
        self.assert_same(plain, engine.state_dict())
        own.param_groups[2]["lr"] *= 2
        engine.backward(engine(**next(iter(batches(1)))).loss)
        with self.assertRaisesRegex(ValueError, "scale all groups' rates alike"):
            engine.step()
        engine.close()

    def test_rates_that_a_script_writes_into_groups_are_kept_to(self) -> None:
        rates = [1e-3, 2e-2, 2e-2]
        engine, optimizer, *_ = castor.deepspeed_initialize(model=gpt2(), config=PLAIN)
        with engine:
            for i, batch in enumerate(batches(6)):
                if i < 4:
                    optimizer.param_groups[0]["lr"] = rates[i // 2]
                self.assertEqual(engine.get_lr(), [rates[i // 2]])
                engine.backward(engine(**batch).loss)
                engine.step()
            plain = gpt2()
            self.plain_steps(plain, rates)
            self.assert_same(plain, engine.state_dict())
        engine, optimizer, *_ = castor.deepspeed_initialize(
            model=gpt2(), config={**PLAIN, "scheduler": WARMUP}
        )
        with engine:
            optimizer.param_groups[0]["lr"] = 0.5
            for batch in batches(4):
                engine.backward(engine(**batch).loss)
                engine.step()
            # The schedule has written its own since.
            self.assertEqual(engine.get_lr(), [1e-2])

    def test_a_loader_keeps_to_its_keys(self) -> None:
        for drops, count in ((True, 3), (False, 4)):
            self.file.write_text(
                json.dumps({**PLAIN, "dataloader_drop_last": drops}), encoding="utf-8"
            )
            engine, _, loader, _ = castor.deepspeed_initialize(
                args=argparse.Namespace(deepscale_config=str(self.file)),
                model=gpt2(), training_data=Rows(7),
            )
            with engine:
                self.assertEqual(len(list(loader)), count)


@unittest.skipUnless("CASTOR_BINARY" in os.environ, "CASTOR_BINARY names no castor")
class ImportConfigTest(unittest.TestCase):
    def test_knows_all_arguments_of_transformers_and_their_defaults(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            args = transformers.TrainingArguments(output_dir="out", use_cpu=True)
            whole = args.to_dict()
            path = Path(folder, "arguments.json")
            path.write_text(json.dumps(whole), encoding="utf-8")
            short = Path(folder, "short.yaml")
            short.write_text("output_dir: out\nuse_cpu: true\n", encoding="utf-8")
            results = [self.imported(path), self.imported(short)]
        for key in (
            "num_train_epochs", "seed", "gradient_clipping", "scheduler", "optimizer",
            "train_micro_batch_size_per_gpu",
        ):
            given, assumed = (result[key] for result in results)
            if key == "optimizer":
                for name, value in assumed["params"].items():
                    self.assertEqual(given["params"][name], value, name)
            else:
                self.assertEqual(given, assumed, key)

    def imported(self, path: Path) -> Any:
        run = subprocess.run(
            [os.environ["CASTOR_BINARY"], "import-config", "--from", "transformers",
             str(path)],
            capture_output=True, text=True, check=False,
        )
        self.assertEqual(run.returncode, 0, run.stderr)
        lines = [x for x in run.stdout.splitlines() if not x.startswith("//")]
        return json.loads("\n".join(lines))


if __name__ == "__main__":
    unittest.main()
