"""What a use of a chunk costs under PyTorch, everything resident.

    python benchmarks/pytorch_uses.py [--layers N] [--rounds N] [--steps N]

A chain of small linear layers, whose products take little, runs forward and
backward by turns as a plain model and in an engine. An engine's pass has a use
for each layer in forward and one in backward, but none for the first layer
there, whose input wants no gradient. Printed is the difference of the two,
divided by the uses: of the clock, and of the process's processor time, which
other programs disturb less. Each round's figures are medians over its steps, the
last line the median over the rounds.

Updates are outside of both: they are the optimizer's, and take as long as its
parameters are many.
"""

import argparse
import statistics
import time

import castor
import torch
from torch import nn


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=200)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20, help="of a round")
    parser.add_argument("--chunk-size", default="4KiB")
    return parser.parse_args()


def chain(layers, width):
    torch.manual_seed(1)
    return nn.Sequential(*[nn.Linear(width, width) for _ in range(layers)])


def passes_of(model, x):
    """Seconds by the clock and of processors for a forward and a backward."""
    began = time.perf_counter(), time.process_time()
    model(x).sum().backward()
    return time.perf_counter() - began[0], time.process_time() - began[1]


def passes_in(engine, x):
    began = time.perf_counter(), time.process_time()
    engine.backward(engine.compute(lambda: engine.model(x).sum()))
    return time.perf_counter() - began[0], time.process_time() - began[1]


def main():
    arguments = parse_arguments()
    torch.set_num_threads(1)
    x = torch.ones(1, arguments.width)
    plain = chain(arguments.layers, arguments.width)
    config = {
        "device": {"threads": 1},
        "memory": {"chunk_size": arguments.chunk_size, "placement_policy": "cuda"},
    }
    uses = 2 * arguments.layers - 1
    rounds = []
    with castor.initialize(chain(arguments.layers, arguments.width), config) as engine:
        for _ in range(4):  # recorded and measured
            passes_in(engine, x)
            engine.step()
        for i in range(arguments.rounds):
            taken = []
            for _ in range(arguments.steps):
                ours = passes_in(engine, x)
                engine.step()
                theirs = passes_of(plain, x)
                plain.zero_grad()
                taken.append([1e6 * (a - b) / uses for a, b in zip(ours, theirs)])
            rounds.append([statistics.median(column) for column in zip(*taken)])
            clock, processors = rounds[-1]
            print(f"round {i + 1}: {clock:.2f} us a use, of processors {processors:.2f}")
        chunks = engine.summary()["chunks"]
    clock, processors = (statistics.median(column) for column in zip(*rounds))
    print(
        f"{uses} uses of {chunks} chunks: {clock:.2f} us a use by the clock, "
        f"{processors:.2f} us of processors"
    )


if __name__ == "__main__":
    main()
