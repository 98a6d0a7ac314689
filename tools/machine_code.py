#!/usr/bin/env python3
"""Reads the machine code of our GPU kernels, and holds it against a table.

  tools/machine_code.py --table kernels/machine_code.txt FILE...
  tools/machine_code.py --table kernels/machine_code.txt --update FILE...

FILE is what nvcc made: an archive, an object file or a cubin. For each kernel
and architecture that is in it:

  * no matrix instruction is predicated: all lanes of a warp must reach it;
  * a kernel that is named after the matrix units (Mma) has such instructions;
  * registers, bytes of stack, instructions inside loops that touch local memory
    (registers that did not fit), and the blocks that a multiprocessor holds at
    once are the table's.

The table was made by one version of nvcc, which its head names. Code by another
version may differ from it, so that only the first two points are held there,
and the number of blocks may not be smaller. --update writes what is found into
the table. Needs NVIDIA's cuobjdump and nvdisasm (PyPI: nvidia-cuda-cuobjdump,
nvidia-cuda-nvdisasm), in --tools or on PATH, and c++filt.

Exit status: 0 all is as it should be, 1 something is not, 2 it cannot be read.
"""

import argparse
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field

# What a multiprocessor has, by compute capability: shared memory in bytes,
# threads, blocks. 65,536 registers everywhere, given to warps 256 at a time;
# each block's shared memory is 1 KiB more than it asks for. (NVIDIA, "CUDA C++
# Programming Guide", tables "Technical Specifications per Compute Capability".)
LIMITS = {
    "75": (64 * 1024, 1024, 16),
    "80": (164 * 1024, 2048, 32),
    "86": (100 * 1024, 1536, 16),
    "89": (100 * 1024, 1536, 24),
    "90": (228 * 1024, 2048, 32),
    "100": (228 * 1024, 2048, 32),
    "120": (100 * 1024, 1536, 24),
}
REGISTERS = 65536

WARP = 32
# The two attributes of a kernel that are read from its section .nv.info.
MAX_THREADS = 0x05
FRAME_SIZE = 0x11
REGISTER_COUNT = 0x2F


class Unreadable(Exception):
    """What was given cannot be read; says why."""


@dataclass
class Instruction:
    address: int
    predicate: str  # "@!P0", or empty
    name: str  # HMMA.16816.F32
    operands: str

    def target(self):
        """The address that it may go on at, or None."""
        found = re.search(r"0x([0-9a-f]+)$", self.operands)
        return int(found.group(1), 16) if found else None


@dataclass
class Loop:
    """A loop's blocks, those of the loops within it included."""

    blocks: set
    depth: int
    inner: list = field(default_factory=list)


@dataclass
class Kernel:
    name: str
    arch: str
    threads: int
    registers: int
    shared: int
    stack: int
    code: list = field(default_factory=list)

    def resident_blocks(self):
        """How many blocks a multiprocessor holds at once."""
        shared, threads, blocks = LIMITS[self.arch]
        warps = -(-self.threads // WARP)
        # Each of the four parts of a multiprocessor takes whole warps.
        per_warp = -(-self.registers * WARP // 256) * 256
        fitting = REGISTERS // 4 // per_warp * 4
        return min(
            blocks,
            threads // (warps * WARP),
            fitting // warps,
            shared // (self.shared + 1024),
        )


def is_matrix_instruction(name):
    """Whether all lanes of a warp must run it together, on the matrix units."""
    return re.match(r"[A-Z]*MMA\b", name) is not None


def is_local(name):
    return re.match(r"(LDL|STL)\b", name) is not None


# --- The way through a kernel -------------------------------------------------


class Flow:
    """Blocks of instructions that run one after the other, and their order."""

    def __init__(self, code):
        self.code = code
        at = {x.address: i for i, x in enumerate(code)}
        self.calls = {}
        follow = [self._after(i, at) for i in range(len(code))]
        jumps = [i for i, x in enumerate(code) if x.name.startswith("BRX")]
        if jumps:
            cases = self._unreached(follow)
            for i in jumps:
                follow[i] = cases + follow[i]
        leaders = {0} | {i for i in self.calls.values()}
        for i, after in enumerate(follow):
            if after != [i + 1]:
                leaders.update(after)
                leaders.add(i + 1)
        starts = sorted(i for i in leaders if i < len(code))
        self.blocks = [
            range(a, b) for a, b in zip(starts, starts[1:] + [len(code)])
        ]
        number = {block.start: n for n, block in enumerate(self.blocks)}
        self.after = [
            [number[i] for i in follow[block[-1]] if i < len(code)]
            for block in self.blocks
        ]
        self.called = {}
        for n, block in enumerate(self.blocks):
            called = [number[self.calls[i]] for i in block if i in self.calls]
            if called:
                self.called[n] = called

    def _unreached(self, follow):
        """Where a jump by a table must go, since nothing else comes there."""
        reached, cases = set(), []
        todo = [0, *self.calls.values()]
        for i in range(len(self.code)):
            while todo:
                n = todo.pop()
                if n < len(follow) and n not in reached:
                    reached.add(n)
                    todo += follow[n]
            # Behind a kernel's end stands a jump to itself.
            if i not in reached and follow[i] != [i]:
                cases.append(i)
                todo.append(i)
        return cases

    def _after(self, i, at):
        """The instructions that may run after the one with number i."""
        x = self.code[i]
        word = x.name.split(".")[0]
        going_on = [i + 1]
        otherwise = going_on if x.predicate else []
        if word in ("JMX", "JMP"):
            raise Unreadable(f"{x.name} at {x.address:#x}: where does it go?")
        if word in ("EXIT", "RET", "KILL", "BRX"):
            return otherwise
        if word == "BRA":
            conditional = "," in x.operands
            return [at[x.target()]] + (going_on if conditional else otherwise)
        if word == "CALL":
            if x.target() in at:
                self.calls[i] = at[x.target()]
            return going_on
        if word == "WARPSYNC" and x.target() in at:
            return [at[x.target()]] + going_on
        if word == "BSYNC":
            # The lanes meet again, and go on where BSSY said.
            register = x.operands.split(",")[0].strip()
            for y in reversed(self.code[:i]):
                if y.name.startswith("BSSY") and register in y.operands:
                    return [at[y.target()]] + otherwise
        return going_on

    def reachable(self, start):
        seen, todo = set(), [start]
        while todo:
            n = todo.pop()
            if n not in seen:
                seen.add(n)
                todo += self.after[n]
        return seen

    def _components(self, nodes, edges):
        """Strongly connected components that hold a circle (Tarjan 1972)."""
        index, low, stack, on, found = {}, {}, [], set(), []
        for root in sorted(nodes):
            if root in index:
                continue
            work = [(root, iter(edges(root)))]
            index[root] = low[root] = len(index)
            stack.append(root)
            on.add(root)
            while work:
                n, successors = work[-1]
                for m in successors:
                    if m not in index:
                        index[m] = low[m] = len(index)
                        stack.append(m)
                        on.add(m)
                        work.append((m, iter(edges(m))))
                        break
                    if m in on:
                        low[n] = min(low[n], index[m])
                else:
                    work.pop()
                    if work:
                        low[work[-1][0]] = min(low[work[-1][0]], low[n])
                    if low[n] == index[n]:
                        component = set()
                        while n not in component:
                            component.add(stack.pop())
                        on -= component
                        if len(component) > 1 or n in edges(n):
                            found.append(component)
        return found

    def loops(self):
        """The outermost loops; each has those within it."""

        def within(nodes, cut, depth):
            def edges(n):
                return [m for m in self.after[n] if m in nodes and m != cut]

            found = []
            for component in self._components(nodes, edges):
                entered = [
                    m
                    for n in nodes - component
                    for m in self.after[n]
                    if m in component
                ]
                head = min(entered or component)
                found.append(
                    Loop(component, depth, within(component, head, depth + 1))
                )
            return found

        return within(self.reachable(0), None, 1)

    def in_loops(self):
        """The instructions that loops run, in functions they call as well."""
        blocks = set()
        for loop in self.loops():
            blocks |= loop.blocks
        todo = list(blocks)
        while todo:
            for callee in self.called.get(todo.pop(), []):
                new = self.reachable(callee) - blocks
                blocks |= new
                todo += new
        return [self.code[i] for n in blocks for i in self.blocks[n]]


# --- Reading ------------------------------------------------------------------


def run(command, **arguments):
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, **arguments
    )
    if done.returncode != 0:
        raise Unreadable(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def short_name(name):
    """AddSquaresProgram<float>, and the shared memory that it asks for."""
    found = re.search(r"::RunProgram<(.*), (\d+)>\(", name)
    if not found:
        name = name.replace("(anonymous namespace)::", "").split("(")[0]
        return re.sub(r"^void |castor::(cuda::)?", "", name), None
    inside = re.sub(r"castor::(kernels::cuda::)?", "", found.group(1))
    # C++ gives a program without shared memory the size 1.
    shared = int(found.group(2))
    return inside.replace("(int)", ""), 0 if shared == 1 else shared


def attributes(elf):
    """{kernel: {attribute: value}}, from the ELF sections .nv.info*."""
    sections_at = struct.unpack_from("<Q", elf, 40)[0]
    size, count, names = struct.unpack_from("<HHH", elf, 58)
    headers = [
        struct.unpack_from("<IIQQQQIIQQ", elf, sections_at + i * size)
        for i in range(count)
    ]

    def text(at):
        return elf[at : elf.index(b"\0", at)].decode()

    section_names = [text(headers[names][4] + h[0]) for h in headers]
    symbols = []
    for h in headers:
        if h[1] == 2:  # SHT_SYMTAB
            strings = headers[h[6]][4]
            for at in range(h[4], h[4] + h[5], 24):
                symbols.append(
                    text(strings + struct.unpack_from("<I", elf, at)[0])
                )
    found = {}
    for name, h in zip(section_names, headers):
        if not name.startswith(".nv.info"):
            continue
        at, end = h[4], h[4] + h[5]
        while at < end:
            form, attribute, value = struct.unpack_from("<BBH", elf, at)
            at += 4
            if form != 4:  # The value is in the header.
                continue
            body = elf[at : at + value]
            at += value
            if attribute == MAX_THREADS:
                kernel = name[len(".nv.info.") :]
                found.setdefault(kernel, {})[attribute] = struct.unpack(
                    "<III", body
                )[0]
            elif attribute in (FRAME_SIZE, REGISTER_COUNT):
                symbol, number = struct.unpack("<II", body)
                found.setdefault(symbols[symbol], {})[attribute] = number
    for name, h in zip(section_names, headers):
        if name.startswith(".nv.shared."):
            kernel = name[len(".nv.shared.") :]
            found.setdefault(kernel, {})["shared"] = h[5]
    return found


INSTRUCTION = re.compile(
    r"/\*([0-9a-f]{4,})\*/\s+(@!?U?P\w+)?\s*([A-Z][\w.]*)\s*([^;]*);"
)


class Reader:
    """Finds kernels in files, by NVIDIA's tools in the folder `tools`."""

    def __init__(self, tools):
        path = os.environ.get("PATH", "")
        self.path = f"{tools}:{path}" if tools else path
        self.cuobjdump = shutil.which("cuobjdump", path=self.path)
        for tool in ("cuobjdump", "nvdisasm", "c++filt"):
            if not shutil.which(tool, path=self.path):
                raise Unreadable(
                    f"there is no {tool}: tools/setup.sh --tests installs "
                    "NVIDIA's, tools/bazel.sh says where it is; binutils has "
                    "c++filt"
                )

    def _run(self, *arguments, **more):
        return run(
            [self.cuobjdump, *arguments],
            env=dict(os.environ, PATH=self.path),
            **more,
        )

    def read(self, path):
        """The kernels in a file, and the versions of nvcc that made them."""
        path = os.path.realpath(path)
        with tempfile.TemporaryDirectory() as folder:
            if path.endswith(".cubin"):
                cubins = [path]
            else:
                self._run("-xelf", "all", path, cwd=folder)
                cubins = [
                    os.path.join(folder, name)
                    for name in sorted(os.listdir(folder))
                ]
            kernels, versions = [], set()
            for cubin in cubins:
                with open(cubin, "rb") as file:
                    elf = file.read()
                for version in re.findall(rb"release [\d.]+, V([\d.]+)", elf):
                    versions.add(version.decode())
                kernels += self._read_cubin(cubin, attributes(elf))
        if not kernels:
            raise Unreadable(f"{path} holds no machine code")
        return kernels, versions

    def _read_cubin(self, path, found):
        text = self._run("-sass", path)
        arch = re.search(r"code for sm_(\d+)", text).group(1)
        if arch not in LIMITS:
            raise Unreadable(f"{path}: nothing is known of sm_{arch}")
        parts = re.split(r"^\s*Function : (\S+)$", text, flags=re.MULTILINE)
        symbols = parts[1::2]
        names = run(["c++filt"], input="\n".join(symbols)).splitlines()
        for symbol, full, body in zip(symbols, names, parts[2::2]):
            about = found[symbol]
            name, shared = short_name(full)
            yield Kernel(
                name=name,
                arch=arch,
                threads=about.get(MAX_THREADS, 1024),
                registers=about[REGISTER_COUNT],
                shared=about.get("shared", 0) if shared is None else shared,
                stack=about.get(FRAME_SIZE, 0),
                code=[
                    Instruction(int(a, 16), p, name, operands.strip())
                    for a, p, name, operands in INSTRUCTION.findall(body)
                ],
            )


# --- The table ----------------------------------------------------------------

HEAD = """\
# What nvcc made of each kernel (tools/machine_code.py). Threads and bytes of
# shared memory of a block; then for each architecture: registers of a thread,
# bytes of its stack, instructions in loops that touch local memory, and the
# blocks that a multiprocessor holds at once.
# nvcc {version}
"""


def cell(kernel):
    local = sum(is_local(x.name) for x in Flow(kernel.code).in_loops())
    return (kernel.registers, kernel.stack, local, kernel.resident_blocks())


def read_table(path):
    """The version of nvcc, and {kernel: (threads, shared, {arch: cell})}."""
    version, rows, archs = "", {}, []
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.startswith("# nvcc "):
                version = line.split()[-1]
            if line.startswith("#") or not line.strip():
                continue
            name, threads, shared, *cells = [
                x.strip() for x in line.split("|")
            ]
            if name == "kernel":
                archs = [x.removeprefix("sm_") for x in cells]
                continue
            rows[name] = (
                int(threads),
                int(shared),
                {
                    arch: tuple(int(x) for x in numbers.split())
                    for arch, numbers in zip(archs, cells)
                    if numbers != "-"
                },
            )
    return version, rows


def write_table(path, version, rows):
    archs = [a for a in LIMITS if any(a in row[2] for row in rows.values())]
    table = [["kernel", "threads", "shared", *("sm_" + a for a in archs)]]
    for name, (threads, shared, cells) in sorted(rows.items()):
        table.append([name, str(threads), str(shared)])
        table[-1] += [" ".join(map(str, cells.get(a, "-"))) for a in archs]
    widths = [max(map(len, column)) for column in zip(*table)]
    with open(path, "w", encoding="utf-8") as file:
        file.write(HEAD.format(version=version))
        for row in table:
            line = " | ".join(x.ljust(w) for x, w in zip(row, widths))
            file.write(line.rstrip() + "\n")


def wrong_code(kernel):
    """What no kernel may do, whatever the table says."""
    matrix = [x for x in kernel.code if is_matrix_instruction(x.name)]
    if "Mma" in kernel.name and not matrix:
        yield "has no matrix instruction"
    for x in matrix:
        if x.predicate:
            yield f"{x.predicate} {x.name} at {x.address:#x} is predicated"


def differences(kernel, rows, same_version):
    """Where a kernel is not as the table says."""
    row = rows.get(kernel.name)
    if row is None or kernel.arch not in row[2]:
        yield "is not in the table"
        return
    if (kernel.threads, kernel.shared) != row[:2]:
        yield (
            f"has blocks of {kernel.threads} threads with {kernel.shared} "
            f"bytes of shared memory, in the table {row[0]} with {row[1]}"
        )
    names = (
        "registers",
        "bytes of stack",
        "instructions in loops that touch local memory",
        "resident blocks a multiprocessor",
    )
    for what, is_now, was in zip(names, cell(kernel), row[2][kernel.arch]):
        if same_version and is_now != was:
            yield f"{is_now} {what}, in the table {was}"
        if not same_version and what == names[-1] and is_now < was:
            yield f"{is_now} {what}, in the table {was}"


def check(kernels, versions, table):
    version, rows = read_table(table)
    same_version = versions == {version}
    if not same_version:
        print(
            f"by nvcc {', '.join(sorted(versions))}; the table is by "
            f"{version}: numbers may differ"
        )
    wrong = []
    for kernel in kernels:
        for what in [
            *wrong_code(kernel),
            *differences(kernel, rows, same_version),
        ]:
            wrong.append(f"sm_{kernel.arch} {kernel.name}: {what}")
    for arch in {kernel.arch for kernel in kernels}:
        there = {kernel.name for kernel in kernels if kernel.arch == arch}
        wrong += [
            f"sm_{arch} {name}: is in the table, but not in the code"
            for name in rows
            if arch in rows[name][2] and name not in there
        ]
    for line in sorted(wrong):
        print(line)
    archs = sorted({kernel.arch for kernel in kernels}, key=int)
    print(
        f"{len(kernels)} kernels of {len(archs)} architectures "
        f"({', '.join(archs)}): {len(wrong) or 'nothing'} wrong"
    )
    if wrong:
        print(
            "If a change of the table is meant, tools/machine_code.py "
            "--update writes it; the change is then seen in review."
        )
    return 1 if wrong else 0


def update(kernels, versions, table):
    rows = read_table(table)[1] if os.path.exists(table) else {}
    archs = {kernel.arch for kernel in kernels}
    for name in list(rows):
        for arch in archs:
            rows[name][2].pop(arch, None)
    for kernel in kernels:
        cells = rows.get(kernel.name, (0, 0, {}))[2]
        cells[kernel.arch] = cell(kernel)
        rows[kernel.name] = (kernel.threads, kernel.shared, cells)
    rows = {name: row for name, row in rows.items() if row[2]}
    write_table(table, max(versions), rows)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--table", required=True)
    parser.add_argument("--tools", help="the folder of cuobjdump and nvdisasm")
    parser.add_argument("--update", action="store_true")
    arguments = parser.parse_args()
    kernels, versions = [], set()
    try:
        reader = Reader(arguments.tools)
        for path in arguments.files:
            found, by = reader.read(path)
            kernels += found
            versions |= by
        if arguments.update:
            update(kernels, versions, arguments.table)
            return 0
        return check(kernels, versions, arguments.table)
    except (Unreadable, OSError) as error:
        print(f"machine_code: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
