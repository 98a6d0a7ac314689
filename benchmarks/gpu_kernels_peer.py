#!/usr/bin/env python3
"""The operators of gpu_kernels_bench beside PyTorch's, on one GPU in one run.

  benchmarks/gpu_kernels_peer.py PROGRAM [--rounds N] [--repetitions N]
                                 [--rows PREFIX] [--program-libraries FOLDERS]
  benchmarks/gpu_kernels_peer.py PROGRAM --dry

PROGRAM is gpu_kernels_bench, which finds its libraries in FOLDERS (as in
LD_LIBRARY_PATH). It and PyTorch take turns, N rounds of each (2). A
row is a hundred calls of an operator between two events of CUDA, as in
gpu_kernels_bench, on operands of the same shapes and types; a figure is the
median over rounds of what each round has (the program's median of its repetitions,
3 unless told, and the same here). The last column is PyTorch's time divided by ours.
A row is printed as soon as its last round has ended.

PyTorch runs what a user would call: its kernels in eager mode, cuBLAS for
products, scaled_dot_product_attention with the backend that it chooses. Its
head's loss keeps the logits, and its dropout with a residual is two kernels.

--dry, without a GPU: each of PyTorch's calls once at small sizes, on the host,
and that PROGRAM has rows of these names.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass

CALLS = 100


@dataclass
class Sizes:
    """Those of gpu_kernels_bench: GPT-2 124M with 16 x 1024 tokens."""
    batch: int = 16
    positions: int = 1024
    heads: int = 12
    channels: int = 768
    vocabulary: int = 50257
    parameters: int = 1 << 27

    @property
    def tokens(self):
        return self.batch * self.positions


SMALL = Sizes(batch=1, positions=16, heads=1, channels=64, vocabulary=100,
              parameters=5000)


def rows_of(torch, device, s):
    """Names, and for each what makes its operands and returns the call."""
    functional = torch.nn.functional
    aten = torch.ops.aten

    def normal(*shape, scale=1.0):
        return torch.randn(*shape, device=device).mul_(scale).bfloat16()

    def indices():
        return torch.randint(s.vocabulary, (s.tokens,), device=device)

    def product(m, n, k, transpose_a, transpose_b):
        def make():
            a = normal(k, m).t() if transpose_a else normal(m, k)
            b = normal(n, k).t() if transpose_b else normal(k, n)
            return lambda: torch.mm(a, b)
        return make

    def attention(heads, dropout, backward):
        def make():
            qkv = normal(s.batch, s.positions, 3, heads, s.channels // heads)
            q, k, v = (qkv[:, :, i].transpose(1, 2) for i in range(3))

            def forward():
                return functional.scaled_dot_product_attention(
                    q, k, v, dropout_p=dropout, is_causal=True)
            if not backward:
                return forward
            inputs = [x.requires_grad_() for x in (q, k, v)]
            out = forward()
            dout = torch.randn_like(out)
            return lambda: torch.autograd.grad(out, inputs, dout,
                                               retain_graph=True)
        return make

    def layer_norm(which):
        def make():
            x, dy = normal(4 * s.tokens, s.channels), normal(4 * s.tokens,
                                                             s.channels)
            gamma, beta = normal(s.channels), normal(s.channels)
            if which == "forward":
                return lambda: functional.layer_norm(x, (s.channels,), gamma,
                                                     beta, 1e-5)
            _, mean, rstd = aten.native_layer_norm(x, (s.channels,), gamma,
                                                   beta, 1e-5)
            wanted = [which == "input"] + 2 * [which == "parameters"]
            return lambda: aten.native_layer_norm_backward(
                dy, x, (s.channels,), mean, rstd, gamma, beta, wanted)
        return make

    def bias_gradient():
        dy = normal(s.tokens, 4 * s.channels)
        return lambda: dy.sum(0)

    def activation(backward):
        def make():
            x = normal(s.tokens, 4 * s.channels)
            dy = torch.randn_like(x)
            if backward:
                return lambda: aten.gelu_backward(dy, x, approximate="tanh")
            return lambda: functional.gelu(x, approximate="tanh")
        return make

    def dropout():
        x, residual = normal(s.tokens, 4 * s.channels), normal(s.tokens,
                                                               4 * s.channels)
        return lambda: functional.dropout(x, 0.1, True) + residual

    def embedding(backward):
        def make():
            table, at = normal(s.vocabulary, s.channels), indices()
            dy = normal(s.tokens, s.channels)
            if backward:
                return lambda: aten.embedding_dense_backward(
                    dy, at, s.vocabulary, -1, False)
            return lambda: functional.embedding(at, table)
        return make

    def head_loss(backward):
        def make():
            x = normal(s.tokens, s.channels).requires_grad_()
            w = normal(s.vocabulary, s.channels, scale=0.02).requires_grad_()
            targets = indices()

            def forward():
                return functional.cross_entropy((x @ w.t()).float(), targets)
            if not backward:
                return forward
            loss = forward()
            return lambda: torch.autograd.grad(loss, [x, w], retain_graph=True)
        return make

    def gradient_norm():
        x = normal(s.parameters)
        return lambda: torch.linalg.vector_norm(x, dtype=torch.float32)

    n, c = s.tokens, s.channels
    rows = {
        "linear/forward": product(n, 4 * c, c, False, False),
        "linear/input_gradient": product(n, c, 4 * c, False, True),
        "linear/weight_gradient": product(c, 4 * c, n, True, False),
        "layer_norm/forward": layer_norm("forward"),
        "layer_norm/input_gradient": layer_norm("input"),
        "layer_norm/parameter_gradients": layer_norm("parameters"),
        "bias_gradient": bias_gradient,
        "activation/forward": activation(False),
        "activation/backward": activation(True),
        "dropout_and_residual": dropout,
        "embedding/forward": embedding(False),
        "embedding/backward": embedding(True),
        "head_loss/forward": head_loss(False),
        "head_loss/backward": head_loss(True),
        "gradient_norm": gradient_norm,
    }
    for percent in (0, 10):
        for heads in (s.heads, max(s.heads // 2, 1)):
            name = f"heads_of_{c // heads}/dropout_{percent}"
            for way in ("forward", "backward"):
                rows[f"attention/{way}/{name}"] = attention(
                    heads, percent / 100, way == "backward")
    return rows


def seconds_of(torch, call, repetitions):
    """A call's, by events around a hundred."""
    call()
    torch.cuda.synchronize()
    taken = []
    for _ in range(repetitions):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(CALLS):
            call()
        end.record()
        end.synchronize()
        taken.append(begin.elapsed_time(end) / 1000 / CALLS)
    return statistics.median(taken)


def ours(program, libraries, names, repetitions):
    """Seconds of a call for each of the program's rows."""
    pattern = "^(" + "|".join(names) + ")/manual_time$"
    done = subprocess.run(
        [program, "--benchmark_filter=" + pattern, "--benchmark_format=json",
         "--benchmark_min_time=0.1",
         f"--benchmark_repetitions={repetitions}"],
        stdout=subprocess.PIPE, text=True, check=True,
        env={**os.environ, "LD_LIBRARY_PATH": libraries})
    # A line that names the GPU comes first.
    report = json.loads(done.stdout[done.stdout.index("{"):])
    each = {}
    for row in report["benchmarks"]:
        if row["run_type"] == "iteration":
            name = row["run_name"].removesuffix("/manual_time")
            each.setdefault(name, []).append(row["each"])
    return {name: statistics.median(times) for name, times in each.items()}


def listed(program):
    done = subprocess.run([program, "--benchmark_list_tests"],
                          stdout=subprocess.PIPE, text=True, check=True)
    return {line.removesuffix("/manual_time")
            for line in done.stdout.splitlines()}


def dry(torch, program):
    rows = rows_of(torch, "cpu", SMALL)
    missing = sorted(set(rows) - listed(program))
    for name, make in rows.items():
        make()()
        print(name)
    if missing:
        sys.exit(f"gpu_kernels_peer: {program} has no rows {missing}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--rows", default="", help="those that begin with this")
    parser.add_argument("--program-libraries",
                        default=os.environ.get("LD_LIBRARY_PATH", ""))
    parser.add_argument("--dry", action="store_true")
    args = parser.parse_args()
    import torch  # which need not be there for --help
    if args.dry:
        dry(torch, args.program)
        return
    if not torch.cuda.is_available():
        sys.exit("gpu_kernels_peer: PyTorch finds no GPU here")
    rows = {name: make
            for name, make in rows_of(torch, "cuda", Sizes()).items()
            if name.startswith(args.rows)}
    if not rows:
        sys.exit(f"gpu_kernels_peer: no row begins with {args.rows}")
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, "
          f"{args.rounds} rounds")
    print(f"{'operator':44} {'ours':>10} {'PyTorch':>10} {'ratio':>6}", flush=True)
    taken = {name: ([], []) for name in rows}
    for round_ in range(args.rounds):
        for name, seconds in ours(args.program, args.program_libraries, rows,
                                  args.repetitions).items():
            taken[name][0].append(seconds)
        for name, make in rows.items():
            castor, peer = taken[name]
            peer.append(seconds_of(torch, make(), args.repetitions))
            torch.cuda.empty_cache()
            if round_ == args.rounds - 1:
                a, b = statistics.median(castor), statistics.median(peer)
                print(f"{name:44} {a * 1e6:7.1f} us {b * 1e6:7.1f} us {b / a:6.2f}",
                      flush=True)


if __name__ == "__main__":
    main()
