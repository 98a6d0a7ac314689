#!/usr/bin/env python3
"""An estimate, without a GPU, of what each of our kernels could reach on one.

  tools/gpu_estimate.py FILE...

FILE is what nvcc made (tools/machine_code.py). Prints docs/measurement.md's
table: GPT-2 124M in bf16 with 16 x 1024 tokens, one call of each operator's
kernel.

  * bytes: each operand read or written once. operations: two for each
    multiplication and addition on the matrix units, recomputed ones included.
  * roofline: the longer of bytes / memory bandwidth and operations / peak.
  * share: the part of it that instructions allow. Of the kernel's busiest loop
    (that with the most matrix instructions, or else with the most bytes of global
    memory; the whole kernel where no loop has as many) the way through with the
    most of them, and of such ways the shortest, is counted. Each instruction
    takes its place in the issue slots and in its unit. The slowest of these, if
    slower than the roofline's, bounds the share. Waiting (for memory, barriers,
    conflicts of banks) is not in it, nor is what lies outside of that loop: the
    truth is worse. (Activation functions are no rows: of their branches the
    shortest would be taken for GELU.)

Units' results a cycle and multiprocessor: NVIDIA, "CUDA C++ Programming Guide",
table "Throughput of Native Arithmetic Instructions"; matrix units: the peak.
"""

import argparse
import re
import sys
from dataclasses import dataclass

import machine_code
from machine_code import Flow

# --- GPUs ---------------------------------------------------------------------


@dataclass
class Gpu:
    name: str
    arch: str
    flops: float  # dense, bf16 with sums in fp32
    bytes_per_s: float
    multiprocessors: int
    hertz: float
    fp32: int  # lanes a cycle and multiprocessor
    fp64: int


# NVIDIA's data sheets of A100 80 GB SXM and H100 SXM; "Ada GPU Architecture" and
# "RTX Blackwell GPU Architecture", appendices.
GPUS = [
    Gpu("A100", "80", 312e12, 2.039e12, 108, 1.410e9, 64, 32),
    Gpu("H100", "90", 989.4e12, 3.35e12, 132, 1.830e9, 128, 64),
    Gpu("4090", "89", 165.2e12, 1.008e12, 128, 2.520e9, 128, 2),
    Gpu("5090", "120", 209.5e12, 1.792e12, 170, 2.407e9, 128, 2),
]

LANES = machine_code.WARP
ISSUED = 4  # instructions of warps a cycle
INTEGER = 64
SPECIAL = 16  # exponentials, reciprocals, conversions
SHARED_BYTES = 128  # of shared memory or the first cache, a cycle
# mma.sync m16n8k16, the only one that kernels/cuda/block.h has.
MATRIX_FLOPS = 2 * 16 * 8 * 16


def access_bytes(name):
    """The bytes of one lane that a load or store moves."""
    found = re.search(r"\.(128|64|U?16|[US]?8)\b", name)
    size = int(re.sub(r"\D", "", found.group(1))) // 8 if found else 4
    return 16 if name.startswith("LDSM") else size


def unit(name):
    """Who runs an instruction."""
    word = name.split(".")[0]
    if machine_code.is_matrix_instruction(name):
        return "matrix"
    if word in ("LDG", "STG", "LDGSTS", "LD", "ST"):
        return "global"
    if word in ("LDS", "STS", "LDSM", "ATOMS", "SHFL", "LDL", "STL"):
        return "shared"
    if word in ("DFMA", "DADD", "DMUL", "DSETP"):
        return "fp64"
    if word in ("MUFU", "F2F", "I2F", "F2I", "I2D", "D2I", "POPC", "FRND"):
        return "special"
    if word in ("FFMA", "FMUL", "FADD", "IMAD") or word.startswith("HFMA2"):
        return "fp32"
    if word in ("BRA", "BAR", "BSSY", "BSYNC", "NOP", "EXIT", "WARPSYNC"):
        return "control"
    if word.startswith("U"):
        return "uniform"
    return "integer"


def cycles(x, gpu):
    """Cycles of a multiprocessor that one warp's instruction takes its unit."""
    kind = unit(x.name)
    if kind == "matrix":
        return MATRIX_FLOPS * gpu.multiprocessors * gpu.hertz / gpu.flops
    if kind in ("global", "shared"):
        return max(1, access_bytes(x.name) * LANES / SHARED_BYTES)
    lanes = {
        "fp32": gpu.fp32,
        "fp64": gpu.fp64,
        "special": SPECIAL,
        "integer": INTEGER,
    }.get(kind)
    return LANES / lanes if lanes else 0


# --- The busiest way through a kernel -----------------------------------------


def worth(x, of_matrix):
    """What an instruction does of what the roofline counts."""
    kind = unit(x.name)
    if of_matrix:
        return kind == "matrix"
    return access_bytes(x.name) * LANES if kind == "global" else 0


def heaviest_way(flow, nodes, start, of_matrix):
    """The instructions of the way from `start` through `nodes`, each at most
    once, that is worth most; of these the shortest."""
    order, state = [], {}
    stack = [(start, iter(flow.after[start]))]
    state[start] = 1
    back = set()
    while stack:
        n, successors = stack[-1]
        for m in successors:
            if m not in nodes or state.get(m) == 2:
                continue
            if state.get(m) == 1:
                back.add((n, m))
                continue
            state[m] = 1
            stack.append((m, iter(flow.after[m])))
            break
        else:
            stack.pop()
            state[n] = 2
            order.append(n)
    best = {}
    for n in order:  # those behind come first
        code = [flow.code[i] for i in flow.blocks[n]]
        own = (sum(worth(x, of_matrix) for x in code), -len(code))
        onward = [
            best[m] for m in flow.after[n] if m in best and (n, m) not in back
        ]
        worth_on, length_on, way = max(
            onward, key=lambda x: x[:2], default=(0, 0, ())
        )
        best[n] = (own[0] + worth_on, own[1] + length_on, (n, way))
    way, found = best[start][2], []
    while way:
        found += [flow.code[i] for i in flow.blocks[way[0]]]
        way = way[1]
    return found


def busiest(kernel):
    """The instructions of the kernel's busiest loop, or of all of it."""
    flow = Flow(kernel.code)
    of_matrix = any(
        machine_code.is_matrix_instruction(x.name) for x in kernel.code
    )
    ways = []

    # The loop with a kernel's matrix instructions has loops within it, for
    # operands that are not made of whole vectors.
    def visit(loops):
        for loop in loops:
            visit(loop.inner)
            if of_matrix or not loop.inner:
                way = heaviest_way(
                    flow, loop.blocks, min(loop.blocks), of_matrix
                )
                ways.append((sum(worth(x, of_matrix) for x in way), way))

    visit(flow.loops())
    whole = heaviest_way(flow, flow.reachable(0), 0, of_matrix)
    in_loop = max(ways, key=lambda x: (x[0], -len(x[1])), default=(0, []))
    # A kernel that goes through memory once has it outside of loops, which
    # are there for what is left over.
    once = sum(worth(x, of_matrix) for x in whole)
    return in_loop[1] if 2 * in_loop[0] >= once else whole


def share(kernel, gpu, by_bytes):
    """The part that the instructions allow of the speed of memory, or of the
    matrix units; and what takes longest."""
    way = busiest(kernel)
    units = {"issue": len(way) / ISSUED}
    for x in way:
        units[unit(x.name)] = units.get(unit(x.name), 0) + cycles(x, gpu)
    if by_bytes:
        moved = sum(worth(x, False) for x in way)
        roofline = moved / (gpu.bytes_per_s / gpu.multiprocessors / gpu.hertz)
    else:
        roofline = units["matrix"]
    slowest = max(units, key=units.get)
    return min(1, roofline / units[slowest]), slowest


# --- GPT-2 124M, 16 x 1024 tokens, bf16 ---------------------------------------

TOKENS, CHANNELS, VOCABULARY, PARAMETERS = 16 * 1024, 768, 50257, 124_439_808
HEADS, HEAD = 12, 64
PAIRS = 16 * HEADS * 1024 * 1025 // 2  # of a query and a key that it sees
SIZE = TOKENS * CHANNELS
PRODUCT = 2 * PAIRS * HEAD
# One call: the kernel, bytes, operations on the matrix units.
CALLS = [
    ("attention, forward", "AttentionMmaForwardProgram<BFloat16, 64, false>",
     4 * 2 * SIZE + 4 * TOKENS * HEADS, 2 * PRODUCT),
    ("attention, forward, dropout",
     "AttentionMmaForwardProgram<BFloat16, 64, true>",
     4 * 2 * SIZE + 4 * TOKENS * HEADS, 2 * PRODUCT),
    # Not what tiles of keys add to dq, which a GPU's cache holds.
    ("attention, backward", "AttentionMmaBackwardProgram<BFloat16, 64, false>",
     7 * 2 * SIZE + 8 * TOKENS * HEADS, 5 * PRODUCT),
    ("attention, backward, dropout",
     "AttentionMmaBackwardProgram<BFloat16, 64, true>",
     7 * 2 * SIZE + 8 * TOKENS * HEADS, 5 * PRODUCT),
    ("attention, delta", "AttentionDeltaProgram<BFloat16>",
     2 * 2 * SIZE + 4 * TOKENS * HEADS, 0),
    ("LayerNorm", "LayerNormForwardProgram<BFloat16, true>",
     2 * 2 * SIZE + 8 * TOKENS, 0),
    ("LayerNorm, dx", "LayerNormBackwardProgram<BFloat16, true>",
     3 * 2 * SIZE + 8 * TOKENS, 0),
    ("LayerNorm, parameters", "LayerNormParametersProgram<BFloat16>",
     2 * 2 * SIZE + 8 * TOKENS, 0),
    ("bias gradient, 4 C", "BiasGradientProgram<BFloat16>", 8 * SIZE, 0),
    ("dropout and residual", "DropoutProgram<BFloat16>", 6 * SIZE, 0),
    ("embedding", "EmbeddingForwardProgram<BFloat16>", 4 * SIZE, 0),
    # All tokens differ: each row is read and written, and four keys looked at.
    ("embedding's gradient", "EmbeddingBackwardProgram<BFloat16>",
     4 * SIZE + 32 * TOKENS, 0),
    ("head's loss, rows of logits", "HeadStatisticsProgram",
     4 * TOKENS * VOCABULARY, 0),
    ("head's loss, their gradients", "HeadGradientProgram<BFloat16>",
     6 * TOKENS * VOCABULARY, 0),
    ("sum of squares", "AddSquaresProgram<BFloat16>", 2 * PARAMETERS, 0),
    ("AdamW", "AdamProgram<BFloat16, BFloat16>", 28 * PARAMETERS, 0),
]


def time_text(seconds):
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} us"
    return f"{seconds * 1e3:.2f} ms"


def row(name, program, size_bytes, operations, kernels):
    cells = [name, f"{size_bytes / 1e6:,.0f} MB",
             f"{operations / 1e9:,.1f} G" if operations else ""]
    for gpu in GPUS:
        kernel = kernels.get((program, gpu.arch))
        if kernel is None:
            cells.append("")
            continue
        by_operations = operations / gpu.flops
        roofline = max(size_bytes / gpu.bytes_per_s, by_operations)
        part, slowest = share(kernel, gpu, operations == 0)
        if operations:  # of the matrix units' time; the roofline's may be longer
            part = min(1, part * roofline / by_operations)
        said = "" if part == 1 else f" ({slowest})"
        cells.append(
            f"{kernel.registers}, {kernel.stack}, "
            f"{kernel.resident_blocks() * kernel.threads}; "
            f"{time_text(roofline)}, {part:.0%}{said}"
        )
    shared = next(k.shared for (p, _), k in kernels.items() if p == program)
    cells.insert(3, f"{shared:,}" if shared else "")
    return "| " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--tools", help="the folder of cuobjdump and nvdisasm")
    arguments = parser.parse_args()
    wanted = {call[1] for call in CALLS}
    kernels = {}
    try:
        reader = machine_code.Reader(arguments.tools)
        for path in arguments.files:
            for kernel in reader.read(path)[0]:
                if kernel.name in wanted:
                    kernels[kernel.name, kernel.arch] = kernel
    except (machine_code.Unreadable, OSError) as error:
        print(f"gpu_estimate: {error}", file=sys.stderr)
        return 2
    names = " | ".join(gpu.name for gpu in GPUS)
    print(f"| kernel | bytes | operations | shared | {names} |")
    print("|---" * (4 + len(GPUS)) + "|")
    for call in CALLS:
        print(row(*call, kernels))
    return 0


if __name__ == "__main__":
    sys.exit(main())
