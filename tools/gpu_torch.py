#!/usr/bin/env python3
"""One run of a small GPT under PyTorch, for tools/gpu_check.sh.

    gpu_torch.py plain --out plain.json         PyTorch alone
    gpu_torch.py engine --out all.json          Castor's engine, no budget
    gpu_torch.py engine --out a.json --like all.json --budget smallest
    gpu_torch.py near plain.json all.json       whether their losses are near
    gpu_torch.py refused                        budgets and calls that must not do
    gpu_torch.py twice                          a second engine has the first one's memory
    gpu_torch.py trainer --out a.json           castor.Trainer; and it resumes
    gpu_torch.py plain-trainer --out b.json     transformers.Trainer

A process has one allocator on the GPU, so that each run is one of its own. The
file has the losses, a hash of the parameters' bytes and the run's summary;
`--like` fails where the bytes are others. `--device host` does the same on
the CPU.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import sys
import tempfile
import time
from typing import Any

# Before CUDA's first use: cuBLAS is deterministic only then.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch
from torch import nn
from torch.nn import functional

STEPS = 12
MICRO_BATCHES = 2
SEED = 1234
RATE = 1e-3
WIDTH, HEADS, LAYERS, LENGTH, VOCABULARY = 256, 4, 4, 128, 512


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = nn.Linear(WIDTH, 3 * WIDTH)
        self.projection = nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        mask = torch.full((LENGTH, LENGTH), float("-inf")).triu(1)
        self.register_buffer("mask", mask)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch = x.shape[0]
        heads = self.attention(self.ln_1(x)).view(batch, LENGTH, 3, HEADS, -1)
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
        scores = scores + self.mask.to(scores.dtype)
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(x.shape)
        x = x + self.dropout(self.projection(mixed))
        return x + self.dropout(self.down(functional.gelu(self.up(self.ln_2(x)))))


class Gpt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        places = torch.arange(LENGTH, device=ids.device)
        x = self.tokens(ids) + self.places(places)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.ln(x))[:, :-1]
        return functional.cross_entropy(
            logits.reshape(-1, VOCABULARY), ids[:, 1:].reshape(-1)
        )


def make_model() -> Gpt:
    torch.manual_seed(SEED)
    return Gpt().train()


def batch_of(step: int, micro_batch: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1000 * step + micro_batch)
    start = torch.randint(VOCABULARY, (4, 1), generator=generator)
    stride = torch.randint(1, 8, (4, 1), generator=generator)
    return (start + stride * torch.arange(LENGTH)) % VOCABULARY


def config_of(arguments: argparse.Namespace, budget: int | None) -> dict[str, Any]:
    memory: dict[str, Any] = {"placement_policy": arguments.policy}
    if budget is not None:
        memory["device_memory"] = budget
    return {
        "device": {"type": arguments.device},
        "seed": SEED,
        "gradient_accumulation_steps": MICRO_BATCHES,
        "gradient_clipping": 1.0,
        "bf16": {"enabled": arguments.bf16},
        "optimizer": {
            "type": "AdamW",
            "params": {"lr": RATE, "weight_decay": 0.1},
        },
        "memory": memory,
    }


def result_of(
    losses: list[float],
    state: dict[str, torch.Tensor],
    seconds: float,
    summary: dict[str, Any],
) -> dict[str, Any]:
    digest = hashlib.sha256()
    for name in sorted(state):
        values = state[name].detach().cpu().contiguous().reshape(-1)
        digest.update(values.view(torch.uint8).numpy().tobytes())
    return {
        "losses": losses,
        "sha256": digest.hexdigest(),
        "seconds_per_step": seconds,
        "summary": summary,
    }


def run_plain(arguments: argparse.Namespace) -> dict[str, Any]:
    import castor

    device = "cpu" if arguments.device == "host" else arguments.device
    model = make_model().to(device)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=RATE, weight_decay=0.1, betas=(0.9, 0.999), eps=1e-8
    )
    losses, began = [], 0.0
    for step in range(1, STEPS + 1):
        if step == 3:
            began = time.monotonic()
        total = 0.0
        for micro_batch in range(MICRO_BATCHES):
            # What the engine's generators are seeded with.
            seed = castor.generator_seed(SEED, step, micro_batch, 0)
            torch.manual_seed(seed)
            loss = model(batch_of(step, micro_batch).to(device))
            (loss / MICRO_BATCHES).backward()
            total += loss.item()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(total / MICRO_BATCHES)
    seconds = (time.monotonic() - began) / (STEPS - 2)
    return result_of(losses, model.state_dict(), seconds, {})


def budget_of(arguments: argparse.Namespace) -> int | None:
    """The budget that is asked for: of the run that this one is to be like."""
    if arguments.budget is None:
        return None
    if arguments.budget.isdigit():
        return int(arguments.budget)
    with open(arguments.like) as file:
        summary = json.load(file)["summary"]
    least, most = summary["smallest_device_budget_bytes"], summary["device_peak_bytes"]
    return int(least if arguments.budget == "smallest" else (least + most) // 2)


def run_engine(arguments: argparse.Namespace) -> dict[str, Any]:
    import castor

    budget = budget_of(arguments)
    losses, began = [], 0.0
    with castor.initialize(make_model(), config_of(arguments, budget)) as engine:
        with contextlib.ExitStack() as stack:
            if arguments.side_stream:
                stack.enter_context(torch.cuda.stream(torch.cuda.Stream()))
            for step in range(1, STEPS + 1):
                if step == 3:
                    began = time.monotonic()
                batches = [batch_of(step, m) for m in range(MICRO_BATCHES)]
                # None of them is to be lost where a step is run again.
                losses.append(engine.train_batch(batches).item())
                if step == STEPS // 2:
                    with torch.no_grad():
                        engine(batches[0])
        seconds = (time.monotonic() - began) / (STEPS - 2)
        summary = engine.summary()
        result = result_of(losses, engine.state_dict(), seconds, summary)
    if budget is not None and summary["device_peak_bytes"] > budget:
        sys.exit(f"the peak, {summary['device_peak_bytes']}, is above {budget}")
    if summary["recorded_steps"] == STEPS:
        sys.exit("no step followed a plan")
    return result


class LabelledGpt(Gpt):
    """As trainers want it: its draws are none, and it has no tied weights, which
    not every model can save."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        for block in self.blocks:
            block.dropout.p = 0.0

    def forward(self, ids: torch.Tensor, labels: torch.Tensor) -> dict[str, Any]:
        return {"loss": super().forward(labels)}


class Rows(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 4 * MICRO_BATCHES * STEPS

    def __getitem__(self, row: int) -> dict[str, torch.Tensor]:
        ids = batch_of(row // 4, 0)[row % 4]
        return {"ids": ids, "labels": ids}


def run_trainer(arguments: argparse.Namespace, plain: bool) -> dict[str, Any]:
    if plain:
        from transformers import Trainer, TrainingArguments
    else:
        from castor import Trainer  # before there are arguments, which use CUDA
        from transformers import TrainingArguments
    budget = None if plain else budget_of(arguments)
    half = STEPS // 2

    def trainer_in(folder: str) -> Any:
        torch.manual_seed(SEED)
        keys: dict[str, Any] = {} if plain else {"castor": config_of(arguments, budget)}
        return Trainer(
            LabelledGpt(),
            TrainingArguments(
                folder, use_cpu=arguments.device == "host", report_to=[], seed=SEED,
                disable_tqdm=True, logging_steps=1, save_steps=half,
                eval_strategy="steps", eval_steps=half, max_steps=STEPS,
                per_device_train_batch_size=4, bf16=arguments.bf16,
                gradient_accumulation_steps=MICRO_BATCHES, learning_rate=RATE,
                lr_scheduler_type="constant", weight_decay=0.1, max_grad_norm=1.0,
            ),
            train_dataset=Rows(), eval_dataset=Rows(), **keys,
        )

    with tempfile.TemporaryDirectory() as folder:
        trainer = trainer_in(folder)
        began = time.monotonic()
        trainer.train()
        seconds = (time.monotonic() - began) / STEPS
        logs = trainer.state.log_history
        losses = [log["loss"] for log in logs if "loss" in log]
        losses += [log["eval_loss"] for log in logs if "eval_loss" in log]
        if plain:
            return result_of(losses, trainer.model.state_dict(), seconds, {})
        summary = trainer.engine.summary()
        result = result_of(losses, trainer.engine.state_dict(), seconds, summary)
        trainer.engine.close()
        resumed = trainer_in(folder)
        resumed.train(resume_from_checkpoint=os.path.join(folder, f"checkpoint-{half}"))
        again = result_of([], resumed.engine.state_dict(), 0, {})["sha256"]
        resumed.engine.close()
    if again != result["sha256"]:
        sys.exit("the run that was resumed has come to other parameters")
    if budget is not None and summary["device_peak_bytes"] > budget:
        sys.exit(f"the peak, {summary['device_peak_bytes']}, is above {budget}")
    return result


def run_near(one: str, other: str) -> None:
    """PyTorch's kernels are the same; the optimizer's arithmetic, the sums of
    micro batches and the norm round otherwise, a last bit here and there. Over a
    dozen steps Adam makes of it a thousandth at most."""
    losses = []
    for name in (one, other):
        with open(name) as file:
            losses.append(json.load(file)["losses"])
    worst = max(abs(a - b) / abs(a) for a, b in zip(*losses, strict=True))
    print(f"largest relative difference of {len(losses[0])} losses: {worst:.2g}")
    if not losses[0][STEPS - 1] < 0.9 * losses[0][0]:
        sys.exit(f"the loss does not fall: {losses[0]}")
    if not worst < 1e-3:
        sys.exit(f"they are not near:\n{losses[0]}\n{losses[1]}")


def run_refused(arguments: argparse.Namespace) -> None:
    import castor

    model = make_model()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    batch = {"ids": batch_of(1, 0)}
    try:
        castor.initialize(model, config_of(arguments, 1 << 20), sample_batch=batch)
        sys.exit("a budget of 1 MiB was not refused")
    except castor.Refused as error:
        print(error)
        least = error.smallest_device_budget_bytes
    for name, value in model.state_dict().items():
        if not torch.equal(value, before[name]):
            sys.exit(f"{name} is not what it was before the refusal")
    if least <= 1 << 20:
        sys.exit(f"the smallest budget is said to be {least}")
    # The memory of the engine that was refused is there again.
    with castor.initialize(model, config_of(arguments, 256 << 20)) as engine:
        engine.train_batch([batch] * MICRO_BATCHES)


def run_twice(arguments: argparse.Namespace) -> None:
    import castor

    batches = [batch_of(1, m) for m in range(MICRO_BATCHES)]
    budgets = []
    for _ in range(2):
        with castor.initialize(make_model(), config_of(arguments, None)) as engine:
            engine.train_batch(batches)
            budgets.append(engine.summary()["device_budget_bytes"])
    print(f"what the first engine had, and the second: {budgets}")
    if budgets[1] < 0.99 * budgets[0]:
        sys.exit("the first one has not given its memory back")


def run_late(arguments: argparse.Namespace) -> None:
    import castor

    torch.zeros(1, device="cuda")
    try:
        castor.initialize(make_model(), config_of(arguments, None))
    except ValueError as error:
        print(error)
        return
    sys.exit("an engine came after CUDA's first use, and was not refused")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "what",
        choices=[
            "plain", "engine", "near", "refused", "twice", "late", "trainer",
            "plain-trainer",
        ],
    )
    parser.add_argument("files", nargs="*")
    parser.add_argument("--out")
    parser.add_argument("--like", help="a run that must have had the same bits")
    parser.add_argument("--budget", help="bytes, or smallest, or middle of --like's")
    parser.add_argument("--policy", default="auto")
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--side-stream", action="store_true")
    parser.add_argument("--device", default="cuda")
    arguments = parser.parse_args()
    torch.use_deterministic_algorithms(True)
    if arguments.what == "near":
        return run_near(*arguments.files)
    if arguments.what == "refused":
        return run_refused(arguments)
    if arguments.what == "twice":
        return run_twice(arguments)
    if arguments.what == "late":
        return run_late(arguments)
    if arguments.what.endswith("trainer"):
        result = run_trainer(arguments, plain=arguments.what == "plain-trainer")
    elif arguments.what == "plain":
        result = run_plain(arguments)
    else:
        result = run_engine(arguments)
    print(f"{result['seconds_per_step']:.4f} s per step, {result['summary']}")
    with open(arguments.out, "w") as file:
        json.dump(result, file)
    if arguments.like is not None:
        with open(arguments.like) as file:
            like = json.load(file)
        for key in ("losses", "sha256"):
            if result[key] != like[key]:
                sys.exit(f"{key}: {result[key]}, not {like[key]}")


if __name__ == "__main__":
    main()
