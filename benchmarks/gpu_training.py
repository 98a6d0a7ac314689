#!/usr/bin/env python3
"""Training speed on a GPU, beside PyTorch's in the same run.

  benchmarks/gpu_training.py                       # all rows
  benchmarks/gpu_training.py 124m 1.5b --rounds 3  # some, in turns, medians
  benchmarks/gpu_training.py --dry                 # what would run, and what fits

Rows, all GPT-2 in bf16 with fp32 master values, AdamW and clipping, without
dropout, on random tokens:

  124m      124 M parameters, 16 x 1024 tokens a step, no cap on memory
  1.5b      1.5 B, 4 x 1024, no cap
  1.5b-6g   1.5 B, 8 x 1024, 6 GiB of device memory
  7b-24g    6.6 B, 4 x 1024, 24 GiB of device memory
  curve     1.5 B, 8 x 1024, from no cap down to the least budget
  largest   the most layers of 7b that `castor plan` admits at 24 GiB, trained for
            three steps (where 7b itself does not fit, fewer)

The peer is tools/bench_pytorch.py: resident rows with autocast, fused AdamW and
torch.compile (eager where that fails: it needs a C compiler, and the row says so);
capped rows with FSDP2, CPU offload of fp32 parameters, gradients and states, and
recomputed blocks, its allocator held to the same budget. A peer that fails is
named. Without torch on a GPU, Castor's rows alone are run. Peak is what gpu_kernels_bench measures for a product of 8192 x 8192 x 8192,
if it lies beside castor; a token's operations are 6 N + 12 L C T (Chowdhery et al.,
"PaLM", 2022, appendix B).
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace

HERE = os.path.dirname(os.path.abspath(__file__))
GIB = 1 << 30
LENGTH = 1024
VOCABULARY = 50257


@dataclass(frozen=True)
class Row:
    name: str
    layers: int
    width: int
    heads: int
    batch: int
    budget: int = 0  # bytes of device memory; 0: all
    recompute: bool = False

    @property
    def parameters(self):
        per_layer = 12 * self.width**2 + 13 * self.width
        return (self.layers * per_layer + 2 * self.width
                + (VOCABULARY + LENGTH) * self.width)

    @property
    def tokens(self):
        return self.batch * LENGTH

    @property
    def flops_per_token(self):
        return 6 * self.parameters + 12 * self.layers * self.width * LENGTH


ROWS = {
    row.name: row
    for row in (
        Row("124m", 12, 768, 12, 16),
        Row("1.5b", 48, 1600, 25, 4),
        Row("1.5b-6g", 48, 1600, 25, 8, 6 * GIB, True),
        Row("7b-24g", 32, 4096, 32, 4, 24 * GIB, True),
    )
}
CURVE_BASE = Row("curve", 48, 1600, 25, 8, 0, True)
NAMES = [*ROWS, "curve", "largest"]


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW",
                        help=f"of {', '.join(NAMES)} (default: all)")
    parser.add_argument("--castor", help="the program (default: beside this file, "
                        "else what Bazel built)")
    parser.add_argument("--castor-libraries", metavar="PATH",
                        help="castor's LD_LIBRARY_PATH, which PyTorch, that "
                             "brings its own, does not get")
    parser.add_argument("--rounds", type=int, default=3,
                        help="runs of each side, in turns (default 3)")
    parser.add_argument("--steps", type=int, default=10,
                        help="steps of a run, of which two are not timed in "
                             "PyTorch; castor reports the median (default 10)")
    parser.add_argument("--no-pytorch", action="store_true")
    parser.add_argument("--dry", action="store_true",
                        help="only ask `castor plan` what fits; needs no GPU")
    parser.add_argument("--timeout", type=int, default=1200,
                        help="seconds that one run may take (default 1200)")
    parser.add_argument("--out", help="where each run's result goes, as JSON lines")
    args = parser.parse_args()
    for name in args.rows:
        if name not in NAMES:
            parser.error(f"there is no row {name!r}; there are "
                         f"{', '.join(NAMES)}")
    if args.steps < 3 or args.rounds < 1:
        parser.error("--steps must be at least 3 and --rounds at least 1")
    return args


def find_castor(given):
    candidates = [given] if given else [
        os.path.join(HERE, "castor"),
        os.path.join(HERE, "..", "bazel-bin", "castor")]
    for path in candidates:
        if os.access(path, os.X_OK):
            return os.path.abspath(path)
    sys.exit(f"gpu_training: there is no castor at {' or '.join(candidates)}; "
             "bazel build -c opt //:castor, or give --castor")


class Bench:
    def __init__(self, args, folder):
        self.args = args
        self.folder = folder
        self.failed = 0  # of Castor's runs
        self.compiles = True  # whether torch.compile works here
        self.castor = find_castor(args.castor)
        self.tokens = os.path.join(folder, "tokens.bin")
        # Enough for the largest row; speed does not depend on what they are.
        state = 12345
        values = bytearray()
        for _ in range((args.steps + 1) * 16 * LENGTH + 1):
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
            values += ((state >> 33) % VOCABULARY).to_bytes(2, "little")
        with open(self.tokens, "wb") as f:
            f.write(values)
        self.peak = self.measured_peak()
        self.torch = not args.no_pytorch and not args.dry and self.has_torch()

    @staticmethod
    def has_torch():
        probe = ("import torch, transformers, sys;"
                 "sys.exit(0 if torch.cuda.is_available() else 1)")
        return subprocess.run([sys.executable, "-c", probe],
                              capture_output=True).returncode == 0

    def measured_peak(self):
        bench = os.path.join(os.path.dirname(self.castor), "gpu_kernels_bench")
        if self.args.dry or not os.access(bench, os.X_OK):
            return None
        done = subprocess.run(
            [bench, "--benchmark_filter=ceiling/product",
             "--benchmark_format=json"], capture_output=True, text=True,
            env=self.castors_environment())
        try:
            text = done.stdout[done.stdout.index("{"):]
            return max(row["FLOP/s"] for row in json.loads(text)["benchmarks"])
        except (ValueError, KeyError):
            return None

    def config(self, row, steps):
        memory = {"placement_policy": "auto",
                  # What crosses the bus: 16-bit values and gradients.
                  "pinned_memory": 2 * row.parameters + GIB,
                  "activation_checkpointing":
                      "block" if row.recompute else "none"}
        if row.budget:
            memory["device_memory"] = row.budget
        path = os.path.join(self.folder, f"{row.name}.json")
        with open(path, "w") as f:
            json.dump({
                "model": {"type": "gpt2", "n_layer": row.layers,
                          "n_head": row.heads, "n_embd": row.width,
                          "n_positions": LENGTH, "vocab_size": VOCABULARY,
                          "resid_pdrop": 0.0, "embd_pdrop": 0.0,
                          "attn_pdrop": 0.0},
                "data": {"train": self.tokens, "token_type": "uint16",
                         "validation_fraction": 0.0,
                         "sequence_length": LENGTH, "shuffle": False},
                "steps": steps, "seed": 1234, "checkpoint": False,
                "train_micro_batch_size_per_gpu": row.batch,
                "gradient_accumulation_steps": 1, "gradient_clipping": 1.0,
                "optimizer": {"type": "AdamW",
                              "params": {"lr": 1e-4, "betas": [0.9, 0.95],
                                         "weight_decay": 0.1}},
                "bf16": {"enabled": True}, "device": {"type": "cuda"},
                "memory": memory, "steps_per_print": 1}, f)
        return path

    def castors_environment(self):
        environment = dict(os.environ)
        if self.args.castor_libraries:
            environment["LD_LIBRARY_PATH"] = self.args.castor_libraries
        return environment

    def run(self, who, command, environment):
        """Its output, or None with the reason printed."""
        try:
            done = subprocess.run(command, capture_output=True, text=True,
                                  timeout=self.args.timeout, env=environment)
        except subprocess.TimeoutExpired:
            print(f"  {who} did not end within {self.args.timeout} s", flush=True)
            return None
        if done.returncode != 0:
            lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
            print(f"  {who} failed with {done.returncode}: "
                  f"{lines[-1] if lines else ''}", flush=True)
            return None
        return done.stdout

    def train_castor(self, row, steps):
        summary = os.path.join(self.folder, "summary.json")
        if os.path.exists(summary):
            os.remove(summary)
        if self.run("castor", [self.castor, "train", self.config(row, steps),
                               "--summary", summary],
                    self.castors_environment()) is None:
            self.failed += 1
            return None
        with open(summary) as f:
            return json.load(f)

    def train_pytorch(self, row):
        command = [sys.executable, self.pytorch_program(), "--device", "cuda",
                   "--batch", f"{row.batch}x{LENGTH}",
                   "--layers", str(row.layers), "--width", str(row.width),
                   "--heads", str(row.heads), "--precision", "autocast",
                   "--steps", str(self.args.steps - 2),
                   "--tokens", self.tokens]
        environment = dict(os.environ)
        if row.recompute:
            command += ["--recompute"]
        if row.budget:
            command += ["--offload", "--memory", str(row.budget)]
            # Under a cap fragments would count against it.
            environment["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
        output = None
        if not row.budget and self.compiles:
            output = self.run("pytorch (torch.compile)",
                              command + ["--compile"], environment)
            self.compiles = output is not None
        if output is None:
            output = self.run("pytorch", command, environment)
        return json.loads(output.splitlines()[-1]) if output else None

    @staticmethod
    def pytorch_program():
        for path in (os.path.join(HERE, "bench_pytorch.py"),
                     os.path.join(HERE, "..", "tools", "bench_pytorch.py")):
            if os.path.exists(path):
                return path
        sys.exit("gpu_training: bench_pytorch.py is not beside this file")

    def plan(self, row):
        """What `castor plan` says: (fits, its last line)."""
        done = subprocess.run([self.castor, "plan", self.config(row, 3)],
                              capture_output=True, text=True,
                              env=self.castors_environment())
        lines = (done.stdout.strip() or done.stderr.strip()).splitlines()
        return done.returncode == 0, lines[-1] if lines else ""

    def keep(self, **result):
        if self.args.out:
            with open(self.args.out, "a") as f:
                f.write(json.dumps(result) + "\n")

    def speed(self, row, seconds):
        text = f"{row.tokens / seconds:10.0f} tokens/s"
        if self.peak:
            share = row.flops_per_token * row.tokens / seconds / self.peak
            text += f"  {100 * share:5.1f}% of the measured peak"
        return text

    def compare(self, row):
        budget = f"{row.budget / GIB:g} GiB" if row.budget else "no cap"
        print(f"{row.name}: {row.parameters / 1e9:.2f} B parameters, "
              f"{row.batch} x {LENGTH} tokens, {budget}", flush=True)
        if self.args.dry:
            # Without a GPU a plan wants a budget.
            print("  " + self.plan(replace(row, budget=row.budget or 1 << 40))[1])
            return
        seconds = {}
        peer = ""
        foreseen = None
        for round_ in range(self.args.rounds):
            summary = self.train_castor(row, self.args.steps)
            if summary:
                seconds.setdefault("castor", []).append(summary["step_seconds"])
                foreseen = summary
                self.keep(row=row.name, round=round_, system="castor", **summary)
            if self.torch:
                result = self.train_pytorch(row)
                if result:
                    seconds.setdefault("pytorch", []).append(
                        result["step_seconds"])
                    peer = result["system"]
                    self.keep(row=row.name, round=round_, **result)
        for system, times in seconds.items():
            median = statistics.median(times)
            print(f"  {system:8} {median:8.3f} s a step ({min(times):.3f} to "
                  f"{max(times):.3f}, of {len(times)}) "
                  + self.speed(row, median), flush=True)
        if foreseen and foreseen["predicted_step_seconds"]:
            step = foreseen["predicted_step_seconds"]
            print(f"  castor foresaw {step:.3f} s "
                  f"({100 * step / foreseen['step_seconds']:.0f}% of it), and a peak "
                  f"of {foreseen['predicted_device_peak_bytes'] / GIB:.3f} GiB "
                  f"(measured {foreseen['device_peak_bytes'] / GIB:.3f})", flush=True)
        if len(seconds) == 2:
            ratio = (statistics.median(seconds["pytorch"])
                     / statistics.median(seconds["castor"]))
            print(f"  castor is {ratio:.2f} times as fast as {peer}", flush=True)

    def curve(self):
        row = CURVE_BASE
        print(f"curve: {row.parameters / 1e9:.2f} B parameters, "
              f"{row.batch} x {LENGTH} tokens", flush=True)
        # Castor's own bound: what it says when asked for nothing.
        least = self.least_budget(row)
        if least is None:
            print("  castor plan names no least budget")
            return
        budgets = []
        budget = 32 * GIB
        while budget > least * 1.2:
            budgets.append(budget)
            budget = budget * 2 // 3
        budgets.append(least)
        if self.args.dry:
            print("  budgets: " + ", ".join(f"{b / GIB:.2f}" for b in budgets)
                  + " GiB")
            return
        whole = self.train_castor(row, self.args.steps)
        if not whole:
            return
        print(f"  {'no cap':>10}  {whole['step_seconds']:8.3f} s a step "
              + self.speed(row, whole["step_seconds"]), flush=True)
        for budget in budgets:
            got = self.train_castor(replace(row, budget=budget), self.args.steps)
            if not got:
                continue
            self.keep(row="curve", budget=budget, **got)
            share = whole["step_seconds"] / got["step_seconds"]
            print(f"  {budget / GIB:6.2f} GiB  {got['step_seconds']:8.3f} s a "
                  f"step, {100 * share:5.1f}% of the speed with no cap",
                  flush=True)

    def least_budget(self, row):
        done = subprocess.run(
            [self.castor, "plan", self.config(replace(row, budget=64 * GIB), 3)],
            capture_output=True, text=True, env=self.castors_environment())
        for line in done.stdout.splitlines():
            if "smallest device budget" in line and "(" in line:
                return int(line.split("(")[1].split()[0])
        return None

    def largest(self):
        base = ROWS["7b-24g"]
        low, high = 0, 256
        while high - low > 1:
            middle = (low + high) // 2
            row = replace(base, layers=middle, name="largest")
            if self.plan(row)[0]:
                low = middle
            else:
                high = middle
        if low == 0:
            print("largest: not one layer fits: "
                  + self.plan(replace(base, layers=1, name="largest"))[1])
            return
        row = replace(base, layers=low, name="largest")
        host = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        print(f"largest: {low} layers, {row.parameters / 1e9:.2f} B parameters; "
              f"the host's {host / GIB:.0f} GiB over 14 bytes are "
              f"{host / 14e9:.2f} B", flush=True)
        if self.args.dry:
            return
        got = self.train_castor(row, 3)
        if got:
            self.keep(row="largest", layers=low, **got)
            print(f"  {got['step_seconds']:8.3f} s a step", flush=True)


def main():
    args = parse_arguments()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(args, folder)
        if not bench.torch and not args.dry:
            print("PyTorch: not run (" + ("--no-pytorch" if args.no_pytorch else
                  f"{sys.executable} has no torch and transformers on a GPU")
                  + ")")
        for name in args.rows or NAMES:
            if name in ROWS:
                bench.compare(ROWS[name])
            elif name == "curve":
                bench.curve()
            else:
                bench.largest()
    if bench.failed:
        sys.exit(f"gpu_training: {bench.failed} of castor's runs failed")


if __name__ == "__main__":
    main()
