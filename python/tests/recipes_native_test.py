"""The recipes that castor train and castor plan run by themselves: losses beside plain
PyTorch's, the same bits at two budgets and on two ranks, and a planned size."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import transformers

from recipe_parts import (
    RECIPES, boolq_step, make_bert, paragraphs, plain_losses, settings,
)
import boolq
import shared
import sizes


@unittest.skipUnless("CASTOR_BINARY" in os.environ, "CASTOR_BINARY names no castor")
class NativeTest(unittest.TestCase):
    def test_boolq_by_castor_train(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            make_bert(folder / "bert", transformers.BertForSequenceClassification)
            with mock.patch.object(shared, "paragraphs", paragraphs):
                boolq.main(["--data", name, "--rows", "40", "--only-files"])
            ours = self.train(folder)
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
            for a, b in zip(ours["losses"], plain, strict=True):
                self.assertAlmostEqual(a, b, delta=1e-5)
            least = ours["smallest_device_budget_bytes"]
            self.assertLess(least, ours["device_peak_bytes"])
            for other in (
                self.train(folder, "--set", f"memory.device_memory={least}"),
                self.train(folder, launch=["launch", "--nproc", "2"]),
            ):
                self.assertEqual(other["losses"], ours["losses"])
                self.assertEqual(other["parameters_sha256"], ours["parameters_sha256"])

    def train(self, folder: Path, *more: str, launch: list[str] | None = None) -> Any:
        """The summary of native.sh's command on what is in `folder`."""
        summary = folder / "summary.json"
        done = subprocess.run(
            [os.environ["CASTOR_BINARY"], *(launch or ["train"]),
             str(RECIPES / "bmtrain_boolq" / "boolq.json"), "--summary", str(summary),
             *settings(
                 model__pretrained=folder / "bert", data__train=folder / "train.jsonl",
                 data__validation=folder / "val.jsonl", data__keys__text="question",
                 data__keys__text_pair="passage", data__sequence_length=32,
                 data__shuffle="false", num_train_epochs=4, eval_strategy="epoch",
                 train_batch_size=8, train_micro_batch_size_per_gpu=4,
                 fp16__enabled="false", checkpoint="false",
                 scheduler__params__warmup_iter=10, scheduler__params__start_lr=1e-2,
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


if __name__ == "__main__":
    unittest.main()
