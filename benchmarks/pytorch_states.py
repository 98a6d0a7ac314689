"""What optimizer states in fewer bits cost in loss, beside other libraries'.

    python benchmarks/pytorch_states.py TEXT [--ways fp32,castor8,...] [--seeds 3] ...

Trains a small GPT-2 of transformers on the bytes of the file TEXT, but for its
last tenth, from the same initial values and on the same batches in each way, and
prints the mean loss over the last tenth after --steps steps:

    fp32        PyTorch's AdamW
    castor      the engine's AdamW
    castor16    its AdamW16bit: moments in bf16
    castor8     its AdamW8bit: moments in 8 bits
    bnb8        bitsandbytes' AdamW8bit
    torchao8    torchao's AdamW8bit

A seed is of the initial values, the batches and the stochastic rounding. The last
lines are the means over the seeds, and what lies between them and fp32's. A way
whose library is not installed says so, and the others go on.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable

import castor
import torch
import transformers

VOCABULARY = 256
WARM_UP = 20  # steps in which the rate rises to --lr
VALIDATION_BATCHES = 40

Step = Callable[[torch.Tensor, float], None]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", metavar="TEXT")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    arguments.ways = arguments.ways.split(",")
    for way in arguments.ways:
        if way not in WAYS:
            parser.error(f"--ways: {way} is none of {', '.join(WAYS)}")
    return arguments


def by_optimizer(
    model: transformers.PreTrainedModel, make: Callable[..., torch.optim.Optimizer]
) -> Step:
    optimizer = make(
        model.parameters(), lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.01
    )

    def step(ids: torch.Tensor, rate: float) -> None:
        for group in optimizer.param_groups:
            # torchao keeps it in a tensor, which compiled code reads.
            if isinstance(group["lr"], torch.Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def by_castor(kind: str) -> Callable[[transformers.PreTrainedModel, int], Step]:
    def make(model: transformers.PreTrainedModel, seed: int) -> Step:
        config = {
            "optimizer": {
                "type": kind,
                "params": {
                    "lr": 1e-3, "betas": [0.9, 0.95], "eps": 1e-8,
                    "weight_decay": 0.01,
                },
            },
            "seed": seed,
            "device": {"threads": torch.get_num_threads()},
        }
        engine = castor.initialize(model, config)

        def step(ids: torch.Tensor, rate: float) -> None:
            engine.backward(engine(input_ids=ids, labels=ids).loss)
            engine.step(learning_rate=rate)

        return step

    return make


def by_bitsandbytes(model: transformers.PreTrainedModel, seed: int) -> Step:
    import bitsandbytes

    return by_optimizer(model, bitsandbytes.optim.AdamW8bit)


def by_torchao(model: transformers.PreTrainedModel, seed: int) -> Step:
    import torchao.optim

    return by_optimizer(model, torchao.optim.AdamW8bit)


WAYS: dict[str, Callable[[transformers.PreTrainedModel, int], Step]] = {
    "fp32": lambda model, seed: by_optimizer(model, torch.optim.AdamW),
    "castor": by_castor("AdamW"),
    "castor16": by_castor("AdamW16bit"),
    "castor8": by_castor("AdamW8bit"),
    "bnb8": by_bitsandbytes,
    "torchao8": by_torchao,
}


def rows(
    data: torch.Tensor, begin: int, end: int, draw: torch.Generator,
    arguments: argparse.Namespace,
) -> torch.Tensor:
    """A batch [batch, length] of the bytes [begin, end)."""
    starts = torch.randint(
        begin, end - arguments.length, (arguments.batch,), generator=draw
    )
    return torch.stack([data[i : i + arguments.length] for i in starts]).long()


def final_loss(
    way: str, seed: int, data: torch.Tensor, arguments: argparse.Namespace
) -> float:
    torch.manual_seed(seed)
    model = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            n_layer=arguments.layers, n_embd=arguments.width,
            n_head=max(1, arguments.width // 32), vocab_size=VOCABULARY,
            n_positions=arguments.length, resid_pdrop=0.0, embd_pdrop=0.0,
            attn_pdrop=0.0, use_cache=False, bos_token_id=0, eos_token_id=0,
        )
    ).train()  # fmt: skip
    step = WAYS[way](model, seed)
    trained = len(data) * 9 // 10
    draw = torch.Generator().manual_seed(seed)
    for i in range(arguments.steps):
        rate = arguments.lr * min(1.0, (i + 1) / WARM_UP)
        step(rows(data, 0, trained, draw, arguments), rate)
    model.eval()
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        losses = []
        for _ in range(VALIDATION_BATCHES):
            ids = rows(data, trained, len(data), draw, arguments)
            losses.append(model(input_ids=ids, labels=ids).loss.item())
    return statistics.fmean(losses)


def main() -> None:
    arguments = parse_arguments()
    torch.set_num_threads(arguments.threads)
    with open(arguments.text, "rb") as file:
        data = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)
    losses: dict[str, list[float]] = {way: [] for way in arguments.ways}
    for seed in range(1, arguments.seeds + 1):
        for way in arguments.ways:
            try:
                losses[way].append(final_loss(way, seed, data, arguments))
            except ImportError as error:
                print(f"{way}: {error}", flush=True)
                continue
            print(f"seed {seed}: {way:9} {losses[way][-1]:.4f}", flush=True)
    print()
    means = {way: statistics.fmean(of) for way, of in losses.items() if of}
    for way, mean in means.items():
        beside = f"{mean - means['fp32']:+.4f}" if "fp32" in means else ""
        print(f"{way:9} {mean:.4f} {beside}")


if __name__ == "__main__":
    main()
