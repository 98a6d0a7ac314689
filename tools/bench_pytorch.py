"""Times a training step of a causal language model in PyTorch, Castor's peer.

  pip install torch==2.13.0 transformers==5.23.0
  python3 tools/bench_pytorch.py --config examples/bench/smollm2_135m \\
      --batch 4x64 [--compile] [--tokens FILE.bin]
  python3 tools/bench_pytorch.py --device cuda --precision autocast --batch 8x1024 \\
      --config examples/bench/gpt2_1.5b --system fsdp2 --memory 6442450944 --recompute

No dropout, fused AdamW, gradients clipped to a norm of 1.0, Hugging Face's model.
--precision autocast has fp32 parameters under autocast to bf16; bf16 has parameters,
gradients and optimizer states in bf16. Two systems keep fp32 parameters, gradients
and optimizer states on the host, and bf16 ones on the device: fsdp2, of one rank, and
zero3, DeepSpeed's ZeRO-3 with its AdamW for the CPU. Prints one JSON object.

--rounds N: a round of --steps steps for each line that comes on standard input, N in
all, each with an object of its own. The first line printed says {"ready": true}.
Between rounds the device's memory is free for somebody else's turn: what is there
waits on the host. So that turns cost neither an import nor a compilation.
"""

import argparse
import contextlib
import json
import os
import statistics
import sys
import time

import numpy as np
import torch
import transformers
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import AutoConfig, AutoModelForCausalLM

ATTENTION = {"flash": SDPBackend.FLASH_ATTENTION,
             "cudnn": SDPBackend.CUDNN_ATTENTION,
             "math": SDPBackend.MATH}
RATE = 1e-4
BETAS = (0.9, 0.95)
DECAY = 0.1


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
    parser.add_argument("--rounds", type=int,
                        help="see above (default: one at once)")
    parser.add_argument("--system", choices=("plain", "fsdp2", "zero3"),
                        default="plain")
    parser.add_argument("--compile", nargs="?", const="model",
                        choices=("model", "blocks"),
                        help="compile the whole model with its loss (the default), or "
                             "each block, and the loss: given a whole model to compile, "
                             "transformers keeps a causal mask, which flash attention "
                             "does not take")
    parser.add_argument("--attention", choices=sorted(ATTENTION),
                        help="the one way of scaled_dot_product_attention "
                             "(default: PyTorch's choice)")
    parser.add_argument("--precision", choices=("fp32", "autocast", "bf16"),
                        default="fp32")
    parser.add_argument("--memory", type=int,
                        help="bytes of device memory that PyTorch may take")
    parser.add_argument("--recompute", action="store_true",
                        help="keep each block's input only")
    parser.add_argument("--tokens",
                        help="little-endian tokens (default: random)")
    parser.add_argument("--token-type", choices=("uint16", "uint32"),
                        default="uint16")
    parser.add_argument("--config", required=True,
                        help="folder of a config.json")
    args = parser.parse_args()
    if args.memory and args.device != "cuda":
        parser.error("--memory is of a GPU's: give --device cuda")
    if args.system != "plain" and args.precision == "bf16":
        parser.error(f"--system {args.system} takes fp32 or autocast")
    return args


class Plain:
    """A model on the device, with PyTorch's own optimizer."""

    def __init__(self, args, model):
        self.args, self.model = args, model
        self.prepare()
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=BETAS,
                                           weight_decay=DECAY, fused=True)
        self.autocast = args.precision == "autocast"

    def prepare(self):
        pass

    def step(self, loss):
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def move(self, device):
        """All that it holds between steps. The tensors stay the same objects."""
        states = (value for state in self.optimizer.state.values()
                  for value in state.values() if torch.is_tensor(value))
        for tensor in (*self.model.parameters(), *self.model.buffers(), *states):
            if tensor.numel() > 1:  # a count of steps stays where it is
                tensor.data = tensor.data.to(device)


class Fsdp2(Plain):
    """FSDP2 over one rank: a unit for each block, one for the rest."""

    def prepare(self):
        import torch.distributed as dist
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import (CPUOffloadPolicy, MixedPrecisionPolicy,
                                            OffloadPolicy, fully_shard)

        args = self.args
        self.model.to("cpu")
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
        for block in blocks_of(self.model):
            fully_shard(block, **options)
        fully_shard(self.model, **options)

    def __init__(self, args, model):
        super().__init__(args, model)
        self.autocast = False  # its policy casts

    def move(self, device):
        pass  # it lives on the host


class Zero3:
    """DeepSpeed's ZeRO-3 over one rank, everything offloaded."""

    def __init__(self, args, model):
        os.environ.setdefault("RANK", "0")
        os.environ.setdefault("LOCAL_RANK", "0")
        os.environ.setdefault("WORLD_SIZE", "1")
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        os.environ.setdefault("MASTER_PORT", "29517")
        if args.device == "cpu":
            os.environ.setdefault("DS_ACCELERATOR", "cpu")
        import deepspeed

        batch = int(args.batch.split("x")[0])
        width = model.config.hidden_size
        host = {"device": "cpu", "pin_memory": args.device == "cuda"}
        self.model, *_ = deepspeed.initialize(model=model.to("cpu"), config={
            "train_micro_batch_size_per_gpu": batch,
            "gradient_clipping": 1.0,
            "bf16": {"enabled": args.precision == "autocast"},
            "optimizer": {"type": "AdamW", "params": {
                "lr": RATE, "betas": BETAS, "weight_decay": DECAY}},
            "zero_optimization": {"stage": 3, "overlap_comm": True,
                                  "contiguous_gradients": True,
                                  # What transformers makes of "auto".
                                  "reduce_bucket_size": width**2,
                                  "stage3_prefetch_bucket_size": 9 * width**2 // 10,
                                  "stage3_param_persistence_threshold": 10 * width,
                                  "offload_param": host, "offload_optimizer": host},
        })
        self.autocast = False

    def step(self, loss):
        self.model.backward(loss)
        self.model.step()

    def move(self, device):
        pass


SYSTEMS = {"plain": Plain, "fsdp2": Fsdp2, "zero3": Zero3}


def blocks_of(model):
    """The layers of a decoder of transformers."""
    lists = [m for m in model.modules() if isinstance(m, torch.nn.ModuleList)]
    return max(lists, key=len)


def make_model(args):
    config = AutoConfig.from_pretrained(args.config)
    # On the device, which draws billions of numbers faster.
    with torch.device(args.device):
        model = AutoModelForCausalLM.from_config(config)
    if args.precision == "bf16":
        model.to(torch.bfloat16)
    model.train()
    if args.recompute:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    return model


def read_tokens(args, vocabulary, count):
    if not args.tokens:
        tokens = np.random.default_rng(1).integers(0, vocabulary, count)
    else:
        tokens = np.fromfile(args.tokens, dtype=args.token_type, count=count)
        if len(tokens) < count:
            raise SystemExit(f"{args.tokens}: {len(tokens)} tokens are too few")
    return torch.from_numpy(tokens.astype(np.int64))


class Run:
    def __init__(self, args):
        self.args = args
        self.batch, self.length = (int(n) for n in args.batch.split("x"))
        model = make_model(args)
        self.parameters = sum(p.numel() for p in model.parameters())
        vocabulary = model.config.vocab_size
        if args.memory:
            total = torch.cuda.get_device_properties(0).total_memory
            torch.cuda.set_per_process_memory_fraction(args.memory / total)
        self.system = SYSTEMS[args.system](args, model)
        self.free()
        if args.device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        self.loss_of, self.cross_entropy = self.mean_loss, functional.cross_entropy
        if args.compile == "model":
            self.loss_of = torch.compile(self.mean_loss)
        elif args.compile == "blocks":
            for block in blocks_of(model):
                block.compile()
            self.cross_entropy = torch.compile(functional.cross_entropy)
        rounds = args.rounds or 1
        self.tokens = read_tokens(
            args, vocabulary,
            (args.warmup + rounds * args.steps) * self.batch * self.length + 1)
        self.steps = 0
        self.losses = []

    def mean_loss(self, inputs, targets):
        with torch.autocast(self.args.device, torch.bfloat16,
                            enabled=self.system.autocast):
            logits = self.system.model(input_ids=inputs, use_cache=False).logits
            return self.cross_entropy(
                logits.view(-1, logits.shape[-1]), targets.view(-1))

    def step(self):
        begin = self.steps * self.batch * self.length
        end = begin + self.batch * self.length
        shape = (self.batch, self.length)
        way = self.args.attention
        start = time.perf_counter()
        with sdpa_kernel([ATTENTION[way]]) if way else contextlib.nullcontext():
            loss = self.loss_of(
                self.tokens[begin:end].view(shape).to(self.args.device),
                self.tokens[begin + 1:end + 1].view(shape).to(self.args.device))
            self.system.step(loss)
        self.losses.append(loss.item())
        if self.args.device == "cuda":
            torch.cuda.synchronize()
        self.steps += 1
        return time.perf_counter() - start

    def free(self):
        if self.args.device == "cuda":
            torch.cuda.synchronize()
            torch.cuda.empty_cache()

    def warm_up(self):
        for _ in range(self.args.warmup):
            self.step()

    def round(self):
        seconds = [self.step() for _ in range(self.args.steps)]
        args = self.args
        median = statistics.median(seconds)
        name = args.system if args.system != "plain" else (
            f"compile {args.compile}" if args.compile else "eager")
        return {
            "system": "pytorch " + name + (f" {args.attention}" if args.attention
                                           else ""),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "precision": args.precision,
            "batch": args.batch,
            "device": args.device,
            "threads": torch.get_num_threads(),
            "parameters": self.parameters,
            "step_seconds": median,
            "step_seconds_min": min(seconds),
            "step_seconds_max": max(seconds),
            "steps": len(seconds),
            "tokens_per_second": self.batch * self.length / median,
            "device_peak_bytes": torch.cuda.max_memory_reserved()
                                 if args.device == "cuda" else None,
            "first_loss": self.losses[0],
            "final_loss": self.losses[-1],
        }


def results_alone():
    """Standard output, which is for results alone from now on: what libraries print
    there goes to standard error."""
    results = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return results


def main():
    args = parse_arguments()
    results = results_alone()
    if args.device == "cpu":
        torch.set_num_threads(args.threads)
    torch.manual_seed(1234)
    run = Run(args)
    run.warm_up()
    if args.rounds is None:
        print(json.dumps(run.round()), file=results, flush=True)
        return
    run.system.move("cpu")
    run.free()
    print(json.dumps({"ready": True}), file=results, flush=True)
    for _ in range(args.rounds):
        if not sys.stdin.readline():
            return
        run.system.move(args.device)
        result = run.round()
        run.system.move("cpu")
        run.free()
        print(json.dumps(result), file=results, flush=True)


if __name__ == "__main__":
    main()
