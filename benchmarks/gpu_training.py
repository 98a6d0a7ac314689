#!/usr/bin/env python3
"""Training speed on a GPU, beside PyTorch's in the same run.

  benchmarks/gpu_training.py                       # all rows
  benchmarks/gpu_training.py 124m 1.5b --rounds 3  # some, in turns, medians
  benchmarks/gpu_training.py 1b-6g --peers fsdp2   # one peer
  benchmarks/gpu_training.py --dry                 # no GPU: what fits, and each
                                                   # peer at a tiny size on the CPU

Rows, in bf16 with fp32 master values, AdamW and clipping, without dropout, on random
tokens; the models are folders with a config.json:

  124m      GPT-2 of 124 M parameters, 16 x 1024 tokens a step, no cap on memory
  1.5b      GPT-2 of 1.5 B, 4 x 1024, no cap
  1b        Llama 3.2's shape of 1 B, 4 x 2048, no cap
  1.5b-6g   GPT-2 of 1.5 B, 8 x 1024, 6 GiB of device memory
  1b-6g     Llama 3.2's shape of 1 B, 4 x 2048, 6 GiB
  8b-24g    Llama 3.1's shape of 8 B, 8 x 2048, 24 GiB; no peer has room for it in a
            host of 128 GiB
  curve     GPT-2 of 1.5 B, 8 x 1024, from no cap down to the least budget
  largest   the most layers of 8b that `castor plan` admits at 24 GiB, trained for
            three steps

Peers (tools/bench_pytorch.py), each in one process that imports and compiles once:

  eager, compile        resident rows: autocast, fused AdamW; each block and the loss
                        compiled
  whole                 the same with the whole model compiled
  flash, cudnn          compile with this attention alone
  fsdp2, zero3          capped rows: everything on the host, blocks recomputed, the
                        allocator held to the same budget

They take turns with castor, and leave the device's memory free between theirs. A peer
that fails is named, with its last line. Where the folder wheels lies beside this file
(tools/gpu_bundle.sh --deepspeed makes it), zero3 is installed from it, for this run
alone, and its AdamW is compiled while the other rows run. Without torch on a GPU,
Castor's rows alone are run. Peak is what gpu_kernels_bench measures for a product of
8192 x 8192 x 8192, if it lies beside castor; a token's operations are 6 N + 12 L C T
(Chowdhery et al., "PaLM", 2022, appendix B).
"""

import argparse
import array
import glob
import json
import os
import random
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace

HERE = os.path.dirname(os.path.abspath(__file__))
GIB = 1 << 30
RESIDENT_PEERS = ("eager", "compile", "whole", "flash", "cudnn")
CAPPED_PEERS = ("fsdp2", "zero3")
WARMUP = 2


@dataclass(frozen=True)
class Row:
    name: str
    model: str
    batch: int
    length: int
    budget: int = 0  # bytes of device memory; 0: all
    recompute: bool = False
    peers: tuple = RESIDENT_PEERS
    layers: int = 0  # in the place of the model's own

    @property
    def tokens(self):
        return self.batch * self.length


ROWS = {
    row.name: row
    for row in (
        Row("124m", "gpt2_124m", 16, 1024),
        Row("1.5b", "gpt2_1.5b", 4, 1024),
        Row("1b", "llama_3_2_1b", 4, 2048),
        Row("1.5b-6g", "gpt2_1.5b", 8, 1024, 6 * GIB, True, CAPPED_PEERS),
        Row("1b-6g", "llama_3_2_1b", 4, 2048, 6 * GIB, True, CAPPED_PEERS),
        Row("8b-24g", "llama_3_1_8b", 8, 2048, 24 * GIB, True, ()),
    )
}
CURVE_BASE = Row("curve", "gpt2_1.5b", 8, 1024, 0, True, ())
NAMES = [*ROWS, "curve", "largest"]


def layers_and_width(sizes):
    return (sizes.get("n_layer") or sizes["num_hidden_layers"],
            sizes.get("n_embd") or sizes["hidden_size"])


def parameters_of(sizes):
    """How many a GPT-2's or a Llama's config.json makes."""
    layers, width = layers_and_width(sizes)
    words = sizes["vocab_size"] * width
    if sizes["model_type"] == "gpt2":
        return (words + sizes["n_positions"] * width
                + layers * (12 * width**2 + 13 * width) + 2 * width)
    head = sizes.get("head_dim") or width // sizes["num_attention_heads"]
    heads = 2 * (sizes["num_attention_heads"] + sizes["num_key_value_heads"])
    layer = width * (heads * head + 3 * sizes["intermediate_size"] + 2)
    tied = sizes.get("tie_word_embeddings", False)
    return words * (1 if tied else 2) + layers * layer + width


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
                        help="steps of a run, of which a peer's first two are not "
                             "timed; castor reports the median (default 10)")
    parser.add_argument("--peers", help="only these, with commas; none: castor alone")
    parser.add_argument("--dry", action="store_true",
                        help="needs no GPU; see above")
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
    every = {*RESIDENT_PEERS, *CAPPED_PEERS}
    named = {"none": set(), None: every}.get(args.peers) if args.peers in (
        None, "none") else set(args.peers.split(","))
    if unknown := named - every:
        parser.error(f"there is no peer {min(unknown)!r}; there are "
                     f"{', '.join((*RESIDENT_PEERS, *CAPPED_PEERS))}")
    args.peers = named
    return args


def first_that_is(kind, what, candidates):
    for path in candidates:
        if path is not None and kind(path):
            return os.path.abspath(path)
    sys.exit(f"gpu_training: there is no {what} at "
             f"{' or '.join(c for c in candidates if c)}")


def is_program(path):
    return os.access(path, os.X_OK)


def model_folder(name):
    return first_that_is(os.path.isdir, f"model {name}", [
        os.path.join(HERE, "models", name),
        os.path.join(HERE, "..", "examples", "bench", name),
        os.path.join(HERE, "..", "tests", "fixtures", "configs", name)])


class Peer:
    """A process of bench_pytorch.py that waits for its turn."""

    def __init__(self, name, command, environment, timeout):
        self.name, self.timeout = name, timeout
        self.errors = tempfile.TemporaryFile(mode="w+")
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self.errors, text=True, env=environment)
        self.failure = None
        self.expect()

    def turn(self):
        """What the round came to, or None with the reason in `failure`."""
        if self.failure is None:
            try:
                self.process.stdin.write("\n")
                self.process.stdin.flush()
            except OSError:
                pass  # its end says more
            return self.expect()
        return None

    def expect(self):
        end = time.monotonic() + self.timeout
        while time.monotonic() < end:
            ready, _, _ = select.select([self.process.stdout], [], [], 1)
            if not ready:
                continue
            line = self.process.stdout.readline()
            if line.startswith("{"):
                return json.loads(line)
            if not line:
                status = self.process.wait()
                self.errors.seek(0)
                lines = self.errors.read().strip().splitlines()
                self.failure = f"failed with {status}: {lines[-1] if lines else ''}"
                return None
        self.failure = f"did not end within {self.timeout} s"
        self.close()
        return None

    def close(self):
        self.process.kill()
        self.process.wait()


class DeepSpeed:
    """Installs DeepSpeed from the folder `wheels` beside this file, for as long as the
    run lasts. Where there is no such folder, peers use what Python has."""

    def __init__(self, args, folder):
        self.environment = dict(os.environ)
        self.compiler = None
        wheels = sorted(glob.glob(os.path.join(HERE, "wheels", "*.whl")))
        rows = [ROWS[name] for name in args.rows or NAMES if name in ROWS]
        if not wheels or not any("zero3" in args.peers.intersection(row.peers)
                                 for row in rows):
            return
        site = os.path.join(folder, "site")
        done = subprocess.run(
            [sys.executable, "-m", "pip", "install", "--quiet", "--no-index",
             "--no-deps", "--target", site, *wheels], capture_output=True, text=True)
        if done.returncode != 0:
            print(f"zero3's wheels: {done.stderr.strip()}", flush=True)
            return
        self.environment["PYTHONPATH"] = os.pathsep.join(
            filter(None, [site, os.environ.get("PYTHONPATH")]))
        self.environment["PATH"] = os.pathsep.join(
            [os.path.join(site, "bin"), os.environ["PATH"]])  # ninja
        self.environment["TORCH_EXTENSIONS_DIR"] = os.path.join(folder, "extensions")
        self.environment.setdefault("DS_ACCELERATOR", "cpu" if args.dry else "cuda")
        # A peer that begins before this has ended waits for it.
        self.compiler = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c",
             "from deepspeed.ops.op_builder import CPUAdamBuilder;"
             "CPUAdamBuilder().load(verbose=False)"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=self.environment, start_new_session=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.compiler is not None and self.compiler.poll() is None:
            os.killpg(self.compiler.pid, signal.SIGKILL)
            self.compiler.wait()


class Bench:
    def __init__(self, args, folder, deepspeed):
        self.args = args
        self.deepspeed = deepspeed
        self.folder = folder
        self.failed = 0  # of Castor's runs
        self.castor = first_that_is(is_program, "castor", [args.castor] if args.castor
                                    else [os.path.join(HERE, "castor"),
                                          os.path.join(HERE, "..", "bazel-bin",
                                                       "castor")])
        self.pytorch = first_that_is(os.path.isfile, "bench_pytorch.py", [
            os.path.join(HERE, "bench_pytorch.py"),
            os.path.join(HERE, "..", "tools", "bench_pytorch.py")])
        self.peak = self.measured_peak()
        self.torch = bool(args.peers) and not args.dry and self.has_torch()

    @staticmethod
    def has_torch():
        probe = ("import torch, transformers, sys;"
                 "sys.exit(0 if torch.cuda.is_available() else 1)")
        return subprocess.run([sys.executable, "-c", probe],
                              capture_output=True).returncode == 0

    def measured_peak(self):
        bench = os.path.join(os.path.dirname(self.castor), "gpu_kernels_bench")
        if self.args.dry or not is_program(bench):
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

    def model_of(self, row):
        """The folder of the row's model, and its sizes."""
        folder = model_folder(row.model)
        with open(os.path.join(folder, "config.json")) as file:
            sizes = json.load(file)
        if row.layers:
            key = "n_layer" if "n_layer" in sizes else "num_hidden_layers"
            sizes[key] = row.layers
            folder = os.path.join(self.folder, f"{row.model}_{row.layers}")
            os.makedirs(folder, exist_ok=True)
            with open(os.path.join(folder, "config.json"), "w") as file:
                json.dump(sizes, file)
        return folder, sizes

    def tokens_of(self, row):
        """A file of random tokens: speed does not depend on what they are."""
        _, sizes = self.model_of(row)
        count = (WARMUP + self.args.rounds * self.args.steps) * row.tokens + 1
        path = os.path.join(self.folder, f"{row.model}.{row.tokens}.bin")
        if not os.path.exists(path):
            draw = random.Random(12345)
            values = array.array("I", draw.choices(range(sizes["vocab_size"]), k=count))
            with open(path, "wb") as file:
                values.tofile(file)
        return path

    def config(self, row, steps):
        folder, sizes = self.model_of(row)
        memory = {"placement_policy": "auto",
                  # What crosses the bus: 16-bit values and gradients.
                  "pinned_memory": 2 * parameters_of(sizes) + GIB,
                  "activation_checkpointing":
                      "block" if row.recompute else "none"}
        if row.budget:
            memory["device_memory"] = row.budget
        path = os.path.join(self.folder, f"{row.name}.json")
        with open(path, "w") as f:
            json.dump({
                "model": {"from_config": folder},
                "data": {"train": self.tokens_of(row), "token_type": "uint32",
                         "validation_fraction": 0.0,
                         "sequence_length": row.length, "shuffle": False},
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

    def train_castor(self, row, steps):
        summary = os.path.join(self.folder, "summary.json")
        if os.path.exists(summary):
            os.remove(summary)
        try:
            done = subprocess.run(
                [self.castor, "train", self.config(row, steps), "--summary", summary,
                 "--no-parameters-sha256"],
                capture_output=True, text=True, timeout=self.args.timeout,
                env=self.castors_environment())
        except subprocess.TimeoutExpired:
            self.failed += 1
            print(f"  castor did not end within {self.args.timeout} s", flush=True)
            return None
        if done.returncode != 0:
            self.failed += 1
            lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
            print(f"  castor failed with {done.returncode}: "
                  f"{lines[-1] if lines else ''}", flush=True)
            return None
        with open(summary) as f:
            return json.load(f)

    def start_peer(self, name, row):
        folder, _ = self.model_of(row)
        tiny = self.args.dry
        command = [sys.executable, "-W", "ignore", self.pytorch, "--config", folder,
                   "--device", "cpu" if tiny else "cuda",
                   "--batch", "1x32" if tiny else f"{row.batch}x{row.length}",
                   "--precision", "autocast", "--warmup", str(WARMUP),
                   "--steps", str(self.args.steps - WARMUP),
                   "--rounds", str(self.args.rounds)]
        if not tiny:
            command += ["--tokens", self.tokens_of(row), "--token-type", "uint32"]
        environment = dict(
            self.deepspeed.environment if name == "zero3" else os.environ)
        if row.recompute:
            command += ["--recompute"]
        if row.budget and not tiny:
            command += ["--memory", str(row.budget)]
            # Under a cap fragments would count against it.
            environment["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
        if name in CAPPED_PEERS:
            command += ["--system", name]
        elif name != "eager":
            command += ["--compile", "model" if name == "whole" else "blocks"]
            if name in ("flash", "cudnn"):
                command += ["--attention", "math" if tiny else name]
        return Peer(name, command, environment, self.args.timeout)

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
            _, sizes = self.model_of(row)
            layers, width = layers_and_width(sizes)
            flops = 6 * parameters_of(sizes) + 12 * layers * width * row.length
            share = flops * row.tokens / seconds / self.peak
            text += f"  {100 * share:5.1f}% of the measured peak"
        return text

    def compare(self, row):
        budget = f"{row.budget / GIB:g} GiB" if row.budget else "no cap"
        print(f"{row.name}: {row.model}, {row.batch} x {row.length} tokens, {budget}",
              flush=True)
        names = [name for name in row.peers if name in self.args.peers]
        if self.args.dry:
            # Without a GPU a plan wants a budget.
            print("  " + self.plan(replace(row, budget=row.budget or 1 << 40))[1],
                  flush=True)
            self.try_peers(names, row)
            return
        peers = [self.start_peer(name, row) for name in names] if self.torch else []
        seconds, foreseen = {}, None
        for round_ in range(self.args.rounds):
            summary = self.train_castor(row, self.args.steps)
            if summary:
                seconds.setdefault("castor", []).append(summary["step_seconds"])
                foreseen = summary
                self.keep(row=row.name, round=round_, system="castor", **summary)
            for peer in peers:
                if result := peer.turn():
                    seconds.setdefault(peer.name, []).append(result["step_seconds"])
                    self.keep(row=row.name, round=round_, **result)
        for peer in peers:
            peer.close()
            if peer.failure:
                print(f"  {peer.name} {peer.failure}", flush=True)
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
        ours = seconds.pop("castor", None)
        if ours and seconds:
            best = min(seconds, key=lambda name: statistics.median(seconds[name]))
            ratio = statistics.median(seconds[best]) / statistics.median(ours)
            print(f"  castor is {ratio:.2f} times as fast as the best of them, {best}",
                  flush=True)

    def try_peers(self, names, row):
        """Each of the row's peers on the CPU, with two layers and a round."""
        row = replace(row, layers=2, peers=())
        for name in names:
            peer = self.start_peer(name, row)
            result = peer.turn()
            peer.close()
            print(f"  {name}: " + (peer.failure or f"{result['system']} runs, loss "
                                   f"{result['final_loss']:.3f}"), flush=True)

    def curve(self):
        row = CURVE_BASE
        print(f"curve: {row.model}, {row.batch} x {row.length} tokens", flush=True)
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
        base = replace(ROWS["8b-24g"], name="largest")
        low, high = 0, 256
        while high - low > 1:
            middle = (low + high) // 2
            if self.plan(replace(base, layers=middle))[0]:
                low = middle
            else:
                high = middle
        if low == 0:
            print("largest: not one layer fits: "
                  + self.plan(replace(base, layers=1))[1])
            return
        print(f"largest: {low} layers of {base.model}", flush=True)
        if self.args.dry:
            return
        got = self.train_castor(replace(base, layers=low), 3)
        if got:
            self.keep(row="largest", layers=low, **got)
            print(f"  {got['step_seconds']:8.3f} s a step", flush=True)


def main():
    args = parse_arguments()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    with tempfile.TemporaryDirectory() as folder, \
            DeepSpeed(args, folder) as deepspeed:
        bench = Bench(args, folder, deepspeed)
        if args.peers and not bench.torch and not args.dry:
            print(f"PyTorch: not run ({sys.executable} has no torch and transformers "
                  "on a GPU)")
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
