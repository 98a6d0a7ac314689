"""Parquet files as data of castor train: the rows that pyarrow writes are read as
the same records as JSON lines."""

from __future__ import annotations

import datetime
import decimal
import json
import math
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from chat_template_test import TEMPLATES, make_directory

CASTOR = os.environ.get("CASTOR_BINARY", "")

CONFIG = {
    "model": {"type": "gpt2", "n_layer": 1, "n_embd": 16, "n_head": 2,
              "n_positions": 256, "vocab_size": 256},
    "data": {"tokenizer": "bytes", "sequence_length": 32},
    "steps": 3,
    "train_batch_size": 2,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
    "device": {"type": "host", "threads": 1},
    "checkpoint": False,
}


@unittest.skipUnless(CASTOR, "CASTOR_BINARY names no castor (see run.sh)")
class Parquet(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, columns: dict[str, list[Any]], **options: Any) -> Path:
        path = self.folder / "rows.parquet"
        pyarrow.parquet.write_table(pyarrow.table(columns), path, **options)
        return path

    def lines(self, records: list[dict[str, Any]]) -> Path:
        path = self.folder / "rows.jsonl"
        path.write_text("".join(json.dumps(r) + "\n" for r in records))
        return path

    def run_castor(self, *arguments: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [CASTOR, *map(str, arguments)],
            env=os.environ | {"CASTOR_PYTHON": sys.executable},
            capture_output=True, text=True,
        )

    def train(self, data: Path, *options: str) -> subprocess.CompletedProcess[str]:
        config = self.folder / "run.json"
        config.write_text(json.dumps(CONFIG))
        return self.run_castor(
            "train", config, "--set", f"data.train={data}",
            "--summary", self.folder / "summary.json",
            *(word for option in options for word in ("--set", option)),
        )

    def sha256(self, data: Path, *options: str) -> str:
        done = self.train(data, *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads((self.folder / "summary.json").read_text())[
            "parameters_sha256"]

    def refusal(self, data: Path) -> str:
        done = self.train(data)
        self.assertEqual(done.returncode, 2, done.stderr)
        return done.stderr

    def test_texts_beside_other_columns(self) -> None:
        texts = [f"text {i}, “ü” {'x' * (i % 40)}\n" for i in range(700)]
        day = datetime.datetime(2024, 1, 2)
        rows = self.write(
            {
                "text": texts,
                "score": [math.nan, 1.5] * 350,
                "day": [day] * 700,
                "price": [decimal.Decimal("1.10")] * 700,
                "nothing": [None] * 700,
            },
            row_group_size=100,
        )
        lines = self.lines([{"text": text} for text in texts])
        for options in ([], ["data.streaming=true"], ["data.packing=rows"]):
            self.assertEqual(self.sha256(rows, *options), self.sha256(lines, *options))

    def test_instructions_of_which_some_have_no_input(self) -> None:
        some = [("do", None, "done"), ("say", "it", "said"), ("go", None, "gone")]
        keys = ("instruction", "input", "output")
        rows = self.write({k: [one[i] for one in some] for i, k in enumerate(keys)})
        lines = self.lines(
            [{k: v for k, v in zip(keys, one) if v is not None} for one in some])
        long = "data.sequence_length=240"
        self.assertEqual(self.sha256(rows, long), self.sha256(lines, long))

    def test_tokens_with_labels(self) -> None:
        ids = [list(range(i, i + 20)) for i in range(8)]
        labels = [[-100] * 10 + one[10:] for one in ids]
        rows = self.write({"input_ids": ids, "labels": labels})
        lines = self.lines(
            [{"input_ids": a, "labels": b} for a, b in zip(ids, labels)])
        self.assertEqual(self.sha256(rows), self.sha256(lines))

    def test_conversations(self) -> None:
        name = "smollm2" if any(t.stem == "smollm2" for t in TEMPLATES) else (
            sorted(t.stem for t in TEMPLATES)[0])
        make_directory(self.folder / "tokenizer")
        conversations = [
            [{"role": "user", "content": "What?"},
             {"role": "assistant", "content": f"That, {i} times.", "name": None}]
            for i in range(3)
        ]
        rows = self.write({"messages": conversations})
        lines = self.lines(
            [{"messages": [{k: v for k, v in turn.items() if v is not None}
                           for turn in one]} for one in conversations])
        said = [
            self.run_castor("tokenize", "--tokenizer", self.folder / "tokenizer",
                            "--chat", path, "--template", name, "--as-text")
            for path in (rows, lines)
        ]
        self.assertEqual(said[0].returncode, 0, said[0].stderr)
        self.assertEqual(len(said[0].stdout.splitlines()), 3)
        self.assertEqual(said[0].stdout, said[1].stdout)

    def test_what_cannot_be_read_is_refused(self) -> None:
        self.assertIn("a column holds bytes",
                      self.refusal(self.write({"text": [b"bytes"]})))
        rows = self.write({"text": ["a"] * 3, "txet": ["b"] * 3})
        rows.write_bytes(rows.read_bytes()[:-20])
        self.assertIn("cannot be read by pyarrow", self.refusal(rows))
        self.assertIn("row 2", self.refusal(self.write({"text": ["a", None, "b"]})))


if __name__ == "__main__":
    unittest.main()
