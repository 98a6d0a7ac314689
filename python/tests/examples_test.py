"""Each example of examples/pytorch runs two steps."""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
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


if __name__ == "__main__":
    unittest.main()
