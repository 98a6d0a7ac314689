#!/usr/bin/env python3
"""Whether the memory of a long run under PyTorch stays flat.

    benchmarks/resident_size.py [--steps 10000] [--shapes 500] [--every 100]

Trains a small GPT-2 of transformers in a sixth more than the least device memory,
in steps of --shapes shapes (those that no larger one serves are recorded, and
planned), and after each --every steps evaluates, generates, saves the model and a checkpoint, of which it
keeps one. Prints the resident size of the process as it goes, and fails where the
last fifth of the run holds more than 2 % over the fifth before it.

A new shape takes memory for what was learned of it, so --shapes is met within the
first half of the run.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import os
import resource
import statistics
import sys
import tempfile
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import castor
import torch
import transformers

VOCABULARY = 128
LONGEST = 64
ALLOWED_GROWTH = 0.02


def make_model() -> transformers.PreTrainedModel:
    torch.manual_seed(0)
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            n_layer=2, n_embd=32, n_head=2, n_positions=LONGEST + 8,
            vocab_size=VOCABULARY, bos_token_id=0, eos_token_id=1,
        )
    )


def batch_of(shape: int) -> dict[str, torch.Tensor]:
    """Of 1 to 8 rows and 2 to 64 tokens: 504 shapes."""
    rows, length = 1 + shape % 8, 2 + shape // 8
    ids = torch.randint(3, VOCABULARY, (rows, length))
    return {"input_ids": ids, "labels": ids}


def resident_bytes() -> int:
    """Now, once what is free has gone back to the system."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def least_memory() -> int:
    with castor.initialize(make_model(), {}) as engine:
        for _ in range(3):
            engine.train_batch([batch_of(503)])
        return int(engine.summary()["smallest_device_budget_bytes"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=10000)
    parser.add_argument("--shapes", type=int, default=500)
    parser.add_argument("--every", type=int, default=100)
    arguments = parser.parse_args()
    if not 1 <= arguments.shapes <= 504 or arguments.steps < 10 * arguments.every:
        sys.exit("resident_size: 1 to 504 shapes, and ten times --every steps")
    torch.manual_seed(1)
    config = {"memory": {"device_memory": least_memory() * 7 // 6}}
    new_each = max(1, arguments.steps // (2 * arguments.shapes))  # steps
    sizes, began = [], time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        model = make_model()
        with castor.initialize(model, config) as engine:
            for step in range(1, arguments.steps + 1):
                met = min(arguments.shapes, 1 + step // new_each)
                # The newest one at once, and then one that was met.
                newest = step % new_each == 0
                shape = met - 1 if newest else int(torch.randint(met, ()))
                # The shapes are spread over all lengths, however few there are.
                spread = shape * 503 // max(1, arguments.shapes - 1)
                engine.train_batch([batch_of(spread)])
                if step % arguments.every != 0:
                    continue
                model.eval()
                with torch.no_grad():
                    model(**batch_of(shape))
                    model.generate(
                        torch.full((1, 4), 3), max_new_tokens=8, do_sample=False,
                        pad_token_id=0,
                    )
                model.train()
                model.save_pretrained(os.path.join(folder, "model"))
                engine.save_checkpoint(os.path.join(folder, "run"), keep=1)
                sizes.append(resident_bytes())
                print(
                    f"step {step}: {sizes[-1] / 2**20:.1f} MiB resident, {met} shapes, "
                    f"{time.monotonic() - began:.0f} s",
                    flush=True,
                )
            print(engine.summary())
    fifth = len(sizes) // 5
    before = statistics.median(sizes[-2 * fifth : -fifth])
    last = statistics.median(sizes[-fifth:])
    growth = last / before - 1
    print(
        f"{arguments.steps} steps, {arguments.shapes} shapes: median resident size "
        f"{before / 2**20:.1f} MiB, then {last / 2**20:.1f} MiB ({growth:+.2%})"
    )
    if growth > ALLOWED_GROWTH:
        sys.exit("resident_size: it grows")


if __name__ == "__main__":
    main()
