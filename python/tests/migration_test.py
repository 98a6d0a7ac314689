"""The right sides of docs/migration.md's table of Hugging Face's Trainer, run one after
the other."""

from __future__ import annotations

import os
import re
import tempfile
import unittest
from pathlib import Path
from typing import Any

import torch
import transformers

PAGE = Path(__file__).resolve().parents[2] / "docs" / "migration.md"


def right_sides(head: str) -> list[str]:
    """The codes on the right of the table with this head; the left ones where they are
    the same."""
    _, _, table = PAGE.read_text(encoding="utf-8").partition(f"| {head} | ours |\n")
    codes = []
    for line in table.splitlines()[1:]:
        if not line:
            break
        left, right = line.strip("| ").split(" | ")
        codes.append((left if right == "the same" else right).strip("`"))
    return codes


class HuggingFacesTrainer(unittest.TestCase):
    def test_each_right_side_runs(self) -> None:
        codes = right_sides("transformers' Trainer")
        self.assertGreater(len(codes), 10)
        row = {"input_ids": list(range(8)), "labels": list(range(8))}
        names: dict[str, Any] = {
            "AutoModelForCausalLM": transformers.AutoModelForCausalLM,
            "Seq2SeqTrainer": transformers.Seq2SeqTrainer,
            "mine": lambda self, model, inputs, **_: model(**inputs).loss,
            "rows": [row] * 8,
        }
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            config = transformers.GPT2Config(
                vocab_size=16, n_positions=8, n_embd=16, n_layer=1, n_head=2
            )
            torch.manual_seed(1)
            transformers.GPT2LMHeadModel(config).save_pretrained("model")
            for code in codes:
                if re.match("torchrun ", code):  # ranks_test.py does that
                    continue
                with self.subTest(code):
                    exec(code, names)  # noqa: S102
            self.assertTrue(Path("out/model/model.safetensors").exists())
            self.assertTrue(Path("out/checkpoint-4/castor").exists())
            self.assertEqual(names["trainer"].state.global_step, 4)
            self.assertTrue(names["trainer"].engine.summary()["device_peak_bytes"] > 0)
            os.chdir(before)


if __name__ == "__main__":
    unittest.main()
