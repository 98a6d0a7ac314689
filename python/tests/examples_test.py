"""Each example of examples/pytorch runs two steps."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import re
import runpy
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "pytorch"


class Examples(unittest.TestCase):
    def run_example(self, name: str, *more: str) -> None:
        said = io.StringIO()
        with tempfile.TemporaryDirectory() as folder:
            arguments = [name, "--steps", "2", "--batch", "2", *more, "--save", folder]
            with (
                mock.patch.object(sys, "argv", arguments),
                mock.patch.object(sys, "path", [str(FOLDER), *sys.path]),
                contextlib.redirect_stdout(said),
                contextlib.redirect_stderr(said),
            ):
                runpy.run_path(str(FOLDER / name), run_name="__main__")
            self.assertTrue(
                [f for f in os.listdir(folder) if f.endswith(".safetensors")]
            )
        text = said.getvalue()
        memory = re.search(r"device peak ([0-9.]+) of ([0-9.]+) MiB", text)
        self.assertIsNotNone(memory, text)
        self.assertLessEqual(float(memory[1]), float(memory[2]))
        if name != "t5_seq2seq.py":
            self.assertEqual(len(re.findall(r"^step +\d+  loss \d", text, re.M)), 2)

    def test_finetune(self) -> None:
        self.run_example("finetune.py", "--text", str(FOLDER / "README.md"))

    def test_bert_classify(self) -> None:
        self.run_example("bert_classify.py")

    def test_bert_pretrain(self) -> None:
        self.run_example("bert_pretrain.py")

    def test_t5_seq2seq(self) -> None:
        self.run_example("t5_seq2seq.py")

    def test_vit(self) -> None:
        self.run_example("vit.py")

    def test_lora(self) -> None:
        self.run_example("lora.py")

    def test_each_example_has_a_test(self) -> None:
        scripts = {path.stem for path in FOLDER.glob("*.py")} - {"shared"}
        tests = {name[5:] for name in dir(self) if name.startswith("test_")}
        self.assertEqual(scripts - tests, set())


class Chat(unittest.TestCase):
    def make(self, entries: int) -> tuple[subprocess.CompletedProcess[str], Path]:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = Path(folder.name)
        text = "00-database-short\n     The Jargon File\n\n"
        for i in range(entries):
            text += (
                f"term {i}\n /teerm/ n.\n\n    [from {{ITS}}] Something that number {i} "
                f"has, and that\n    is long enough. See also {{another\n    term}}."
                "\n\n    A second paragraph, which is left out.\n\n"
            )
        text += "two meanings\n\n    1. The first meaning, which is not taken since it is counted.\n\n"
        text += "short\n n.\n\n    Too short.\n\n"
        with gzip.open(path / "jargon.dict.dz", "wt", encoding="utf-8") as file:
            file.write(text)
        done = subprocess.run(
            [sys.executable, FOLDER.parent / "chat" / "conversations.py",
             path / "jargon.dict.dz", path],
            capture_output=True, text=True,
        )
        return done, path

    def test_conversations_of_the_jargon_file(self) -> None:
        done, path = self.make(360)
        self.assertEqual(done.returncode, 0, done.stderr)
        train, held_out = (
            [json.loads(line) for line in (path / name).read_text().splitlines()]
            for name in ("train.jsonl", "validation.jsonl")
        )
        self.assertEqual((len(train), len(held_out)), (330, 30))
        self.assertEqual(
            train[0]["messages"],
            [
                {"role": "user", "content": "What does a hacker mean by “term 1”?"},
                {
                    "role": "assistant",
                    "content": "Something that number 1 has, and that is long enough. "
                    "See also another term.",
                },
            ],
        )

    def test_another_file_is_refused(self) -> None:
        done, path = self.make(3)
        self.assertEqual(done.returncode, 1)
        self.assertIn("3 short definitions found", done.stderr)
        self.assertFalse((path / "train.jsonl").exists())


if __name__ == "__main__":
    unittest.main()
