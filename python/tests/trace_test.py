"""The trace of an engine, and what castor makes of it."""

from __future__ import annotations

import json
import os
import random
import subprocess
import tempfile
import unittest
from pathlib import Path
from typing import Any

import castor
import torch

from models import MAKERS
from promises_test import config_of
from small import Net, X, engine_of, one_step

CASTOR = os.environ.get("CASTOR_BINARY", "")


class Trace(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "run.trace"

    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.path.read_text().splitlines()]

    def test_every_use_of_each_step_and_all_bytes(self) -> None:
        case = MAKERS["gpt2"](random.Random(1), 5)
        torch.manual_seed(1)
        with castor.initialize(case.make(), config_of(1, False, None)) as engine:
            engine.train_batch(case.batches[:1])
            budget = engine.summary()["smallest_device_budget_bytes"]
        torch.manual_seed(1)
        model = case.make()
        with castor.initialize(model, config_of(1, False, budget)) as engine:
            engine.trace(self.path)
            for batch in case.batches[:1] * 5:
                engine.train_batch([batch])
            followed = 5 - engine.summary()["recorded_steps"]
            peak = engine.summary()["device_peak_bytes"]
        self.assertGreater(followed, 0)
        lines = self.lines()
        of_type: dict[str, list[Any]] = {}
        for line in lines:
            kind = line["type"] if isinstance(line, dict) and "type" in line else None
            if isinstance(line, list):
                kind = line[0]
            of_type.setdefault(str(kind), []).append(line)
        self.assertIn("GPT2LMHeadModel", of_type["run"][0]["title"])
        self.assertEqual(len(of_type["result"]), 5)
        self.assertEqual(of_type["end"][0]["status"], "finished")
        names = [op["name"] for op in of_type["step_trace"][0]["ops"]]
        self.assertTrue(any("transformer.h.0.attn.c_attn.weight" in n for n in names))
        self.assertEqual(len(of_type["step"]), followed)
        self.assertEqual(len(of_type["op"]), followed * len(names))
        for op in of_type["op"]:
            self.assertEqual(sum(op[5:]), op[4])
            self.assertLessEqual(op[4], peak)
        ran = [w for w in of_type["work"] if w[3] in (1, 4, 5) and w[5] >= 0]
        self.assertEqual(
            {(w[4], w[5]) for w in ran}, {(op[1], op[2]) for op in of_type["op"]}
        )
        if CASTOR:
            for form in ("html", "perfetto"):
                out = self.path.with_suffix(f".{form}")
                command = [CASTOR, "trace", "export", str(self.path), str(out)]
                done = subprocess.run(
                    [*command, "--format", form], text=True, capture_output=True
                )
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertGreater(out.stat().st_size, 1000)

    def test_window_and_errors(self) -> None:
        with engine_of(Net()) as engine:
            for bad in ("x", "0:2", "4:3"):
                with self.assertRaisesRegex(ValueError, "FIRST:LAST"):
                    engine.trace(self.path, bad)
            with self.assertRaises(ValueError):
                engine.trace(self.path / "no" / "such")
            engine.trace(self.path, "3:4")
            with self.assertRaisesRegex(ValueError, "already"):
                engine.trace(self.path)
            for _ in range(6):
                one_step(engine, X)
            engine.end_trace()
            one_step(engine, X)
            engine.end_trace()
        steps = [r["step"] for r in self.lines()[1:] if isinstance(r, dict)
                 and r["type"] == "step"]
        self.assertEqual(steps, [3, 4])

    def test_tells_the_budget_that_the_run_has_when_it_begins(self) -> None:
        before, after = 768 << 10, 640 << 10
        with engine_of(Net(64), 1, 1 << 20) as engine:
            for budget in (1 << 20, before):
                engine.set_device_memory(budget)
                one_step(engine, torch.ones(4, 64))
            engine.trace(self.path)
            one_step(engine, torch.ones(4, 64))
            engine.set_device_memory(after)
            one_step(engine, torch.ones(4, 64))
        records = [r for r in self.lines()[1:] if isinstance(r, dict)]
        told = {r["type"]: r for r in records}
        self.assertEqual(told["run"]["device_budget_bytes"], before)
        changes = [r for r in records if r["type"] == "budget"]
        self.assertEqual(
            [(r["from_bytes"], r["to_bytes"]) for r in changes], [(before, after)]
        )


if __name__ == "__main__":
    unittest.main()
