"""Two ranks, as torchrun starts them, against one with the same global batch."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

import castor
import torch
from torch import nn

from small import Net, X, bits, engine_of, one_step

STEPS = 3


def config(accumulation: int, budget: int | None) -> dict[str, Any]:
    return {
        "gradient_accumulation_steps": accumulation,
        "gradient_clipping": 0.5,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "weight_decay": 0.1}},
        "memory": {
            "device_memory": "unlimited" if budget is None else budget,
            "host_memory": "256MiB",
        },
        "device": {"threads": 1},
    }


def gpt2(seed: int) -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(seed)
    return GPT2LMHeadModel(
        GPT2Config(
            n_layer=2, n_head=2, n_embd=32, n_positions=16, vocab_size=64, use_cache=False
        )
    )


def batch(step: int, micro_batch: int) -> dict[str, torch.Tensor]:
    draw = torch.Generator().manual_seed(100 * step + micro_batch)
    # Lengths differ from rank to rank.
    tokens = torch.randint(64, (2, 8 + 4 * (micro_batch % 2)), generator=draw)
    return {"input_ids": tokens, "labels": tokens}


def trained(accumulation: int, budget: int | None, seed: int) -> dict[str, Any]:
    """What a process has after some steps of its share, dropout included."""
    with castor.initialize(gpt2(seed), config(accumulation, budget)) as engine:
        engine.train()
        for step in range(STEPS):
            engine.train_batch(
                batch(step, m * engine.world_size + engine.rank)
                for m in range(accumulation)
            )
        return {"bits": [b.hex() for b in bits(engine)], "summary": engine.summary()}


class FailsOnce(Net):
    """On rank 1, in the second step."""

    calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.fail = os.environ["RANK"] == "1" and self.calls == 2
        return super().forward(x)


def failed_on_one_rank() -> dict[str, Any]:
    torch.manual_seed(0)
    with engine_of(FailsOnce()) as engine:
        engine.train()
        one_step(engine, X)
        before = bits(engine)
        try:
            one_step(engine, X)
            error = ""
        except (RuntimeError, KeyError) as caught:
            error = repr(caught)
        unchanged = bits(engine) == before
        one_step(engine, X)
        return {"error": error, "unchanged": unchanged, "steps": engine.global_steps}


def refused_on_one_rank() -> dict[str, Any]:
    """Rank 1 alone has a batch that does not fit."""
    torch.manual_seed(0)
    with engine_of(Net(), budget=40_000) as engine:
        engine.train()
        one_step(engine, X)
        try:
            one_step(engine, X.repeat(4000 if engine.rank == 1 else 1, 1))
            refused = {}
        except castor.Refused as caught:
            refused = {"peak": caught.peak_bytes, "text": str(caught)}
        one_step(engine, X)
        try:
            engine.save_checkpoint("/nowhere")
            saved = ""
        except castor.CheckpointError as caught:
            saved = str(caught)
        return {"refused": refused, "steps": engine.global_steps, "saved": saved}


def buffer_written() -> dict[str, Any]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), Net())
    with engine_of(model) as engine:
        engine.train()
        try:
            one_step(engine, X)
            return {"error": ""}
        except RuntimeError as caught:
            return {"error": str(caught)}


def one_leaves() -> dict[str, Any]:
    torch.manual_seed(0)
    with engine_of(Net()) as engine:
        engine.train()
        one_step(engine, X)
        if engine.rank == 0:
            return {"error": ""}
        try:
            one_step(engine, X)
            return {"error": ""}
        except RuntimeError as caught:
            return {"error": str(caught)}


WORK = {
    "train": lambda: trained(1, None, seed=5 + int(os.environ["RANK"])),
    "train_small": lambda: trained(2, 300_000, seed=5),
    "fail": failed_on_one_rank,
    "refuse": refused_on_one_rank,
    "buffer": buffer_written,
    "leave": one_leaves,
}


def on_two_ranks(*work: str) -> list[dict[str, Any]]:
    """Each rank's results of this work, which it does in one process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as directory:
        processes = []
        for rank in range(2):
            environment = {
                **os.environ,
                "RANK": str(rank),
                "WORLD_SIZE": "2",
                "LOCAL_RANK": str(rank),
                "LOCAL_WORLD_SIZE": "2",
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
                "OMP_NUM_THREADS": "1",
            }
            out = str(Path(directory) / f"{rank}.json")
            processes.append(
                subprocess.Popen(
                    [sys.executable, "-W", "ignore", __file__, out, *work],
                    env=environment,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
        for rank, process in enumerate(processes):
            _, error = process.communicate()
            if process.returncode != 0:
                raise AssertionError(f"rank {rank}: {error}")
        return [
            json.loads((Path(directory) / f"{rank}.json").read_text())
            for rank in range(2)
        ]


class Ranks(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        torch.set_num_threads(1)
        cls.ranks = on_two_ranks(
            "train", "train_small", "fail", "refuse", "buffer", "leave"
        )

    def test_have_the_bits_of_one_rank(self) -> None:
        for work, accumulation in (("train", 2), ("train_small", 4)):
            alone = trained(accumulation, None, seed=5)
            for number, rank in enumerate(self.ranks):
                self.assertEqual(rank[work]["bits"], alone["bits"], work)
                summary = rank[work]["summary"]
                self.assertEqual(summary["world_size"], 2)
                self.assertEqual(summary["rank"], number)
                self.assertLessEqual(
                    summary["device_peak_bytes"], summary["device_budget_bytes"]
                )
        self.assertEqual(self.ranks[0]["train_small"]["summary"]["steps"], STEPS)

    def test_undo_a_step_that_fails_on_one_of_them(self) -> None:
        first, second = (rank["fail"] for rank in self.ranks)
        self.assertIn("rank 1", first["error"])
        self.assertIn("from the model", second["error"])
        for rank in (first, second):
            self.assertTrue(rank["unchanged"])
            self.assertEqual(rank["steps"], 2)

    def test_are_refused_together(self) -> None:
        first, second = (rank["refuse"] for rank in self.ranks)
        self.assertIn("rank 1", first["refused"]["text"])
        self.assertEqual(first["refused"]["peak"], second["refused"]["peak"])
        self.assertEqual((first["steps"], second["steps"]), (2, 2))
        self.assertIn("several ranks", first["saved"])

    def test_refuse_buffers_that_forward_writes(self) -> None:
        for rank in self.ranks:
            self.assertIn("writes the buffer 1.", rank["buffer"]["error"])

    def test_end_when_one_leaves(self) -> None:
        self.assertIn("rank 0", self.ranks[1]["leave"]["error"])


def main() -> None:
    torch.set_num_threads(1)
    out, *work = sys.argv[1:]
    results = {}
    for name in work:
        results[name] = WORK[name]()
        print(name, file=sys.stderr, flush=True)
    Path(out).write_text(json.dumps(results))


if __name__ == "__main__":
    if len(sys.argv) > 2 and "RANK" in os.environ:
        main()
    else:
        unittest.main()
