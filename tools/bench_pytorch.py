"""Times a training step of a causal language model in PyTorch, Castor's peer.

  pip install torch==2.13.0 transformers==5.23.0
  python3 tools/bench_pytorch.py --config examples/bench/smollm2_135m \\
      --batch 4x64 [--compile] [--tokens FILE.bin]
  python3 tools/bench_pytorch.py --device cuda --precision autocast --batch 8x1024 \\
      --layers 48 --width 1600 --heads 25 --offload --memory 6442450944 --recompute

No dropout, fused AdamW, gradients clipped to a norm of 1.0, Hugging Face's model
with its default attention. --precision autocast has fp32 parameters under autocast
to bf16, or, with --offload, FSDP2 (one rank) with bf16 parameters and gradients on
the device and fp32 parameters, gradients and optimizer states on the host; bf16
has parameters, gradients and optimizer states in bf16. Prints one JSON object.
"""

import argparse
import json
import statistics
import time

import numpy as np
import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, GPT2Config


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--batch", default="4x64",
                        help="samples x tokens of one step (default 4x64)")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", type=int, default=2,
                        help="of the CPU, where it computes (default 2)")
    parser.add_argument("--warmup", type=int, default=2,
                        help="steps that are not timed (default 2)")
    parser.add_argument("--steps", type=int, default=6,
                        help="steps that are timed (default 6)")
    parser.add_argument("--compile", action="store_true",
                        help="use torch.compile")
    parser.add_argument("--precision", choices=("fp32", "autocast", "bf16"),
                        default="fp32")
    parser.add_argument("--offload", action="store_true",
                        help="FSDP2 with all states on the host")
    parser.add_argument("--memory", type=int,
                        help="bytes of device memory that PyTorch may take")
    parser.add_argument("--recompute", action="store_true",
                        help="keep each block's input only")
    parser.add_argument("--tokens",
                        help="little-endian uint16 tokens (default: random)")
    parser.add_argument("--config",
                        help="folder of a config.json (default: GPT-2's sizes "
                             "as below)")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--heads", type=int,
                        help="(default: width / 64)")
    args = parser.parse_args()
    if args.memory and args.device != "cuda":
        parser.error("--memory is of a GPU's: give --device cuda")
    if args.offload and (args.config or args.precision == "bf16"):
        parser.error("--offload takes GPT-2 in fp32 or autocast")
    return args


def shard(model, args):
    """FSDP2 over one rank: a unit for each block, one for the rest."""
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import (CPUOffloadPolicy,
                                        MixedPrecisionPolicy, OffloadPolicy,
                                        fully_shard)

    # Clipping reduces on the host, where the gradients are.
    backend = "cpu:gloo,cuda:nccl" if args.device == "cuda" else "gloo"
    dist.init_process_group(backend, store=dist.HashStore(), rank=0,
                            world_size=1)
    options = {
        "mesh": init_device_mesh(args.device, (1,)),
        # On a CPU there is nothing to offload from.
        "offload_policy": CPUOffloadPolicy() if args.device == "cuda"
                          else OffloadPolicy(),
    }
    if args.precision == "autocast":
        options["mp_policy"] = MixedPrecisionPolicy(
            param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.transformer.h:
        fully_shard(block, **options)
    fully_shard(model, **options)


def main():
    args = parse_arguments()
    batch, length = (int(n) for n in args.batch.split("x"))
    if args.device == "cpu":
        torch.set_num_threads(args.threads)
    torch.manual_seed(1234)

    if args.config:
        config = AutoConfig.from_pretrained(args.config)
    else:
        config = GPT2Config(n_layer=args.layers, n_embd=args.width,
                            n_head=args.heads or args.width // 64,
                            n_positions=max(length, 1024), resid_pdrop=0.0,
                            embd_pdrop=0.0, attn_pdrop=0.0)
    # On the device, which draws billions of numbers faster.
    with torch.device(args.device):
        model = AutoModelForCausalLM.from_config(config)
    if args.precision == "bf16":
        model.to(torch.bfloat16)
    model.train()
    if args.recompute:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    if args.offload:
        model.to("cpu")
    if args.memory:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(args.memory / total)
    if args.offload:
        shard(model, args)
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
        with torch.autocast(args.device, torch.bfloat16,
                            enabled=args.precision == "autocast"
                            and not args.offload):
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
        loss = mean_loss(
            tokens[begin:end].view(batch, length).to(args.device),
            tokens[begin + 1:end + 1].view(batch, length).to(args.device))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
        if args.device == "cuda":
            torch.cuda.synchronize()
        if step >= args.warmup:
            seconds.append(time.perf_counter() - start)

    median = statistics.median(seconds)
    print(json.dumps({
        "system": "pytorch " + ("fsdp2" if args.offload else
                                "compile" if args.compile else "eager"),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "precision": args.precision,
        "batch": args.batch,
        "device": args.device,
        "threads": torch.get_num_threads(),
        "parameters": sum(p.numel() for p in model.parameters()),
        "step_seconds": median,
        "step_seconds_min": min(seconds),
        "step_seconds_max": max(seconds),
        "steps": len(seconds),
        "tokens_per_second": batch * length / median,
        "device_peak_bytes": torch.cuda.max_memory_reserved()
                             if args.device == "cuda" else None,
        "first_loss": losses[0],
        "final_loss": losses[-1],
    }))


if __name__ == "__main__":
    main()
