"""Times a training step of GPT-2 124M in PyTorch, Castor's peer on the CPU.

  pip install torch==2.13.0 transformers==5.23.0
  python3 tools/bench_pytorch.py --batch 4x64 [--compile] [--tokens FILE.bin]

fp32, no dropout, fused AdamW, gradients clipped to a norm of 1.0, Hugging Face's
model with its default attention. Prints one JSON object.
"""

import argparse
import json
import statistics
import time

import numpy as np
import torch
import transformers
from transformers import GPT2Config, GPT2LMHeadModel


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--batch", default="4x64",
                        help="samples x tokens of one step (default 4x64)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--warmup", type=int, default=2,
                        help="steps that are not timed (default 2)")
    parser.add_argument("--steps", type=int, default=6,
                        help="steps that are timed (default 6)")
    parser.add_argument("--compile", action="store_true",
                        help="use torch.compile")
    parser.add_argument("--tokens",
                        help="little-endian uint16 tokens (default: random)")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=768)
    return parser.parse_args()


def main():
    args = parse_arguments()
    batch, length = (int(n) for n in args.batch.split("x"))
    torch.set_num_threads(args.threads)
    torch.manual_seed(1234)

    config = GPT2Config(n_layer=args.layers, n_embd=args.width,
                        n_head=args.width // 64, resid_pdrop=0.0,
                        embd_pdrop=0.0, attn_pdrop=0.0)
    model = GPT2LMHeadModel(config)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4,
                                  betas=(0.9, 0.95), weight_decay=0.1,
                                  fused=True)
    count = args.warmup + args.steps
    if args.tokens:
        tokens = np.fromfile(args.tokens, dtype="<u2",
                             count=count * batch * length + 1)
        if len(tokens) < count * batch * length + 1:
            raise SystemExit(f"{args.tokens}: {len(tokens)} tokens are too few")
    else:
        tokens = np.random.default_rng(1).integers(
            0, config.vocab_size, count * batch * length + 1)
    tokens = torch.from_numpy(tokens.astype(np.int64))

    def mean_loss(inputs, targets):
        logits = model(input_ids=inputs, use_cache=False).logits
        return torch.nn.functional.cross_entropy(
            logits.view(-1, logits.shape[-1]), targets.view(-1))

    if args.compile:
        mean_loss = torch.compile(mean_loss)

    seconds = []
    losses = []
    for step in range(count):
        begin = step * batch * length
        end = begin + batch * length
        start = time.perf_counter()
        loss = mean_loss(tokens[begin:end].view(batch, length),
                         tokens[begin + 1:end + 1].view(batch, length))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
        if step >= args.warmup:
            seconds.append(time.perf_counter() - start)

    median = statistics.median(seconds)
    print(json.dumps({
        "system": "pytorch " + ("compile" if args.compile else "eager"),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "batch": args.batch,
        "threads": args.threads,
        "parameters": sum(p.numel() for p in model.parameters()),
        "step_seconds": median,
        "step_seconds_min": min(seconds),
        "step_seconds_max": max(seconds),
        "steps": len(seconds),
        "tokens_per_second": batch * length / median,
        "first_loss": losses[0],
        "final_loss": losses[-1],
    }))


if __name__ == "__main__":
    main()
