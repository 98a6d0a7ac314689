"""The recipes that castor train and castor plan run by themselves: losses beside plain
PyTorch's, the same bits at two budgets and on two ranks, and a planned size."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import transformers

from recipe_parts import (
    RECIPES, STEPS, TEXT, Moments, boolq_step, clipped_adamw, lamb_rate, make_bert,
    paragraphs, plain_losses, settings, squad_step,
)
import boolq
import pretrain
import shared
import sizes
import squad


def read_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def pretraining_loss(model: torch.nn.Module) -> Callable[[Any], torch.Tensor]:
    """Of rows as pretrain.py writes them, each padded to 32 tokens."""

    def loss_of(chosen: list[Any]) -> torch.Tensor:
        def padded(key: str, padding: int) -> torch.Tensor:
            return torch.tensor(
                [r[key] + [padding] * (32 - len(r[key])) for r in chosen]
            )

        lengths = torch.tensor([[len(r["input_ids"])] for r in chosen])
        return model(
            input_ids=padded("input_ids", 0),
            token_type_ids=padded("token_type_ids", 0),
            attention_mask=(torch.arange(32) < lengths).long(),
            labels=padded("labels", -100),
            next_sentence_label=torch.tensor([r["next_sentence_label"] for r in chosen]),
        ).loss

    return loss_of


@unittest.skipUnless("CASTOR_BINARY" in os.environ, "CASTOR_BINARY names no castor")
class NativeTest(unittest.TestCase):
    def test_boolq_by_castor_train(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            make_bert(folder / "bert", transformers.BertForSequenceClassification)
            with mock.patch.object(shared, "paragraphs", paragraphs):
                boolq.main(["--data", name, "--rows", "40", "--only-files"])
            ours = self.train_boolq(folder)
            self.assertEqual(len(ours["evaluations"]), 4)
            rows = boolq.load_rows(folder / "train.jsonl")
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "bert")
            model = transformers.BertForSequenceClassification.from_pretrained(
                folder / "bert"
            )

            def loss_of(chosen: list[Any]) -> torch.Tensor:
                inputs = tokenizer(
                    [row[0] for row in chosen], [row[1] for row in chosen],
                    truncation=True, max_length=32, padding=True, return_tensors="pt",
                )
                return model(**inputs, labels=torch.tensor([r[2] for r in chosen])).loss

            batches = (rows[i : i + 8] for _ in range(4) for i in range(0, 40, 8))
            plain = plain_losses(model, 1, batches, loss_of, boolq_step(model))
            self.check(ours, plain, lambda *more, **how: self.train_boolq(
                folder, *more, **how))

    def test_pretraining_by_castor_train(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            make_bert(folder / "bert", transformers.BertForPreTraining)
            pretrain.main(
                ["--only_files", f"{name}/pairs.jsonl", "--text", TEXT,
                 "--max_steps", str(STEPS), "--max_seq_length", "32"]
            )
            ours = self.train_pairs(folder)
            for a, *terms in zip(ours["losses"], *ours["loss_terms"].values()):
                self.assertEqual(a, sum(terms))
            model = transformers.BertForPreTraining.from_pretrained(folder / "bert")
            step = clipped_adamw(model, lr=1e-3, weight_decay=0.01)
            rows = read_rows(folder / "pairs.jsonl")
            batches = (rows[i : i + 8] for i in range(0, 8 * STEPS, 8))
            plain = plain_losses(model, 1, batches, pretraining_loss(model), step)
            self.check(ours, plain, lambda *more, **how: self.train_pairs(
                folder, *more, **how))

    def test_pretraining_by_lamb_in_two_phases(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            make_bert(folder / "bert", transformers.BertForPreTraining)
            rows: list[dict[str, Any]] = []
            for length in (16, 32):
                path = folder / f"pairs_{length}.jsonl"
                pretrain.main(
                    ["--only_files", str(path), "--text", TEXT, "--max_steps", "10",
                     "--max_seq_length", str(length)]
                )
                rows += read_rows(path)
            ours = self.train_phases(folder)
            model = transformers.BertForPreTraining.from_pretrained(folder / "bert")
            moments = Moments(pretrain.groups_of(model), (0.01, 0.3))
            plain = plain_losses(
                model, 1, (rows[i : i + 8] for i in range(0, 8 * STEPS, 8)),
                pretraining_loss(model), lambda step: moments.step(lamb_rate(step)),
            )
            self.check(ours, plain, lambda *more, **how: self.train_phases(
                folder, *more, **how))

    def test_squad_by_castor_train(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            make_bert(folder / "bert", transformers.BertForQuestionAnswering)
            arguments = [
                "--data", name, "--model", f"{name}/bert", "--questions", "40",
                "--max_seq_length", "48", "--doc_stride", "16",
            ]
            with mock.patch.object(shared, "paragraphs", paragraphs):
                squad.main([*arguments, "--only_files"])
            ours = self.train_squad(folder)
            for a, *terms in zip(ours["losses"], *ours["loss_terms"].values()):
                self.assertEqual(a, sum(terms))
            self.assertEqual(set(ours["evaluations"][-1]["accuracies"]), {"start", "end"})
            windows = squad.windows_of(
                squad.load_questions(folder / squad.FILES["train"]),
                transformers.AutoTokenizer.from_pretrained(folder / "bert"),
                squad.parse_arguments(arguments),
            )
            self.assertGreater(len(windows), 40)
            model = transformers.BertForQuestionAnswering.from_pretrained(folder / "bert")

            def loss_of(chosen: list[Any]) -> torch.Tensor:
                losses = []
                for _, inputs, (start, end), _ in chosen:
                    # Without padding, which transformers' loss would count.
                    length = sum(inputs["attention_mask"])
                    losses.append(model(
                        **{k: torch.tensor([v[:length]]) for k, v in inputs.items()},
                        start_positions=torch.tensor([start]),
                        end_positions=torch.tensor([end]),
                    ).loss)
                return sum(losses) / len(losses)

            batches = (
                [windows[at % len(windows)] for at in range(first, first + 8)]
                for first in range(0, 8 * STEPS, 8)
            )
            plain = plain_losses(model, 1, batches, loss_of, squad_step(model, 1e-3))
            self.check(ours, plain, lambda *more, **how: self.train_squad(
                folder, *more, **how))

    def check(self, ours: Any, plain: list[float], train: Callable[..., Any]) -> None:
        """The summary of a run beside PyTorch's losses, and those of the run at its
        least budget and on two ranks."""
        for a, b in zip(ours["losses"], plain, strict=True):
            self.assertAlmostEqual(a, b, delta=1e-5)
        least = ours["smallest_device_budget_bytes"]
        self.assertLess(least, ours["device_peak_bytes"])
        for other in (
            train("--set", f"memory.device_memory={least}"),
            train(launch=["launch", "--nproc", "2"]),
        ):
            self.assertEqual(other["losses"], ours["losses"])
            self.assertEqual(other["parameters_sha256"], ours["parameters_sha256"])

    def train_boolq(self, folder: Path, *more: str, **how: Any) -> Any:
        return self.train(
            "bmtrain_boolq/boolq.json", folder,
            *settings(
                data__train=folder / "train.jsonl",
                data__validation=folder / "val.jsonl", data__keys__text="question",
                data__keys__text_pair="passage", num_train_epochs=4,
                eval_strategy="epoch", scheduler__params__warmup_iter=10,
                scheduler__params__start_lr=1e-2,
            ), *more, **how,
        )

    def train_pairs(self, folder: Path, *more: str, **how: Any) -> Any:
        return self.train(
            "deepspeed_bert/deepspeed_bsz4096_adam_config.json", folder,
            *settings(
                data__train=folder / "pairs.jsonl", steps=STEPS,
                optimizer__params__lr=1e-3, optimizer__params__bias_correction="true",
                optimizer__params__adam_w_mode="true",
            ), *more, **how,
        )

    def train_phases(self, folder: Path, *more: str, **how: Any) -> Any:
        """LAMB for ten steps of 16 positions and, from there, for ten of 32; the
        second run's summary, with the losses of both."""
        shutil.rmtree(folder / "checkpoints", ignore_errors=True)
        losses: list[float] = []
        for settings_file, length, steps, restart, resume in (
            ("lamb_128.json", 16, 10, 0, ()),
            ("lamb_512.json", 32, 20, 10, ("--resume", "latest", "--resume-changed")),
        ):
            summary = self.train(
                f"deepspeed_bert/{settings_file}", folder,
                *settings(
                    data__train=folder / f"pairs_{length}.jsonl",
                    data__sequence_length=length, steps=steps,
                    checkpoint=json.dumps({"dir": str(folder / "checkpoints")}),
                    optimizer__no_decay='["*.bias", "*LayerNorm*"]',
                    scheduler__params__total_num_steps=200,
                    scheduler__params__restart_step=restart,
                ), *resume, *more, **how,
            )
            losses += summary["losses"]
        return {**summary, "losses": losses}

    def train_squad(self, folder: Path, *more: str, **how: Any) -> Any:
        return self.train(
            "deepspeed_squad/squad.json", folder,
            *settings(
                data__train=folder / "train.jsonl", data__validation=folder / "dev.jsonl",
                data__sequence_length=48, data__doc_stride=16, steps=STEPS,
                eval_interval=STEPS, optimizer__params__lr=1e-3,
                scheduler__params__warmup_max_lr=1e-3,
                scheduler__params__total_num_steps=40,
                scheduler__params__warmup_num_steps=4,
            ), *more, **how,
        )

    def train(
        self, recipe: str, folder: Path, *more: str, launch: list[str] | None = None
    ) -> Any:
        """The summary of native.sh's command on what is in `folder`."""
        summary = folder / "summary.json"
        done = subprocess.run(
            [os.environ["CASTOR_BINARY"], *(launch or ["train"]),
             str(RECIPES / recipe), "--summary", str(summary),
             *settings(
                 model__pretrained=folder / "bert", data__sequence_length=32,
                 data__shuffle="false", train_batch_size=8,
                 train_micro_batch_size_per_gpu=4, fp16__enabled="false",
                 checkpoint="false",
             ), *more],
            capture_output=True, text=True, check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(summary.read_text(encoding="utf-8"))


@unittest.skipUnless("CASTOR_BINARY" in os.environ, "CASTOR_BINARY names no castor")
class SizesTest(unittest.TestCase):
    def test_a_row_fits_in_the_memory_that_it_names_and_in_no_less(self) -> None:
        folder = RECIPES / "sizes"
        row = json.loads((folder / "sizes.json").read_text())[0]
        self.assertEqual(row["row"], "1.5B in 6 GB")
        castor_binary = os.environ["CASTOR_BINARY"]
        figures = sizes.plan(castor_binary, str(folder), row)
        self.assertTrue(figures["fits"], figures)
        self.assertGreater(figures["parameters"], 1.5e9)
        self.assertLessEqual(figures["predicted_device_peak_bytes"], 6e9)
        self.assertGreater(figures["unmanaged_device_bytes"], 6e9)
        refused = sizes.plan(castor_binary, str(folder), {**row, "ram": "16GiB"})
        self.assertFalse(refused["fits"])
        self.assertEqual(refused["binds"], "host_memory")

    def test_a_t5_is_planned_by_its_operators(self) -> None:
        shape = dict(d_model=64, d_kv=16, d_ff=256, num_layers=2, num_heads=4)
        row = {"model": "tiny", "micro_batch": 2, "length": 16, "ram": "8GiB"}
        with mock.patch.dict(sizes.t5.SHAPES, tiny=shape):
            figures = sizes.t5.plan({**row, "device_memory": "64MiB"})
            refused = sizes.t5.plan({**row, "device_memory": "1MiB"})
        self.assertTrue(figures["fits"])
        peak = figures["predicted_device_peak_bytes"]
        self.assertLessEqual(figures["smallest_device_budget_bytes"], peak)
        self.assertLessEqual(peak, 64 << 20)
        self.assertGreater(figures["predicted_host_peak_bytes"], 14 * 32128 * 64)
        self.assertFalse(refused["fits"])
        self.assertEqual(refused["binds"], "device_memory")


if __name__ == "__main__":
    unittest.main()
