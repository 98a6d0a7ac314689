"""machine_code.py sees what it is there to see, and gpu_estimate.py counts as it
says, in code written by hand."""

import contextlib
import io
import os
import tempfile
import unittest

import gpu_estimate
import machine_code
from machine_code import Flow, Instruction, Kernel


def code(text):
    """A line for each instruction; addresses count by 16 from 0."""
    found = []
    for i, line in enumerate(text.strip().splitlines()):
        words = line.split()
        predicate = words.pop(0) if words[0].startswith("@") else ""
        found.append(
            Instruction(16 * i, predicate, words[0], " ".join(words[1:]))
        )
    return found


def kernel(text, name="SomeProgram", registers=64, shared=0):
    return Kernel(name, "80", 256, registers, shared, 0, code(text))


def in_loops(text):
    return [x.name for x in Flow(code(text)).in_loops()]


NESTED = """
    STL [R1], R0
    BSSY B0, 0x90
    MOV R1, R2
    LDG.E R2, [R4.64]
    @!P0 BRA 0x30
    @P1 BRA 0x70
    @P2 BRA 0x20
    BSYNC B0
    NOP
    LDL R0, [R1]
    EXIT
    BRA 0xb0
"""


class LoopsTest(unittest.TestCase):
    def test_finds_what_lies_in_loops(self):
        self.assertCountEqual(
            in_loops(NESTED), ["MOV", "LDG.E", "BRA", "BRA", "BRA"]
        )

    def test_knows_loops_within_loops(self):
        (outer,) = Flow(code(NESTED)).loops()
        (inner,) = outer.inner
        self.assertEqual((outer.depth, inner.depth), (1, 2))
        self.assertLess(inner.blocks, outer.blocks)
        self.assertEqual(inner.inner, [])

    def test_follows_calls_from_loops(self):
        text = """
            CALL.REL.NOINC 0x30
            @P0 BRA 0x0
            EXIT
            LDL R0, [R1]
            RET.REL.NODEC R2 0x0
        """
        self.assertIn("LDL", in_loops(text))
        # Once before the loop is not in it.
        self.assertNotIn("LDL", in_loops(text.replace("BRA 0x0", "BRA 0x10")))

    def test_goes_on_behind_bssy_after_bsync(self):
        text = """
            BSSY B1, 0x40
            @P0 BRA 0x30
            BSYNC B1
            BSYNC B1
            @P1 BRA 0x0
            EXIT
        """
        self.assertEqual(len(in_loops(text)), 5)

    def test_follows_a_table_of_jumps(self):
        text = """
            BRX R2 -0x10
            NOP
            EXIT
            @P0 BRA 0x30
            EXIT
        """
        self.assertEqual(in_loops(text), ["BRA"])
        self.assertEqual(len(Flow(code(text)).reachable(0)), 4)

    def test_refuses_jumps_that_it_cannot_follow(self):
        with self.assertRaisesRegex(machine_code.Unreadable, "JMX"):
            in_loops("JMX R2 -0x40\nEXIT")


class ResidentBlocksTest(unittest.TestCase):
    def blocks(self, registers, shared, arch="80"):
        return Kernel("X", arch, 256, registers, shared, 0).resident_blocks()

    def test_is_bound_by_threads_registers_or_shared_memory(self):
        self.assertEqual(self.blocks(16, 0), 8)  # 2048 threads
        self.assertEqual(self.blocks(16, 0, "89"), 6)  # 1536
        self.assertEqual(self.blocks(128, 0), 2)  # 65536 / 128 / 256
        self.assertEqual(self.blocks(33, 0), 6)  # 12 warps of 40 a part
        self.assertEqual(self.blocks(16, 54 * 1024), 2)  # 164 / 55
        self.assertEqual(self.blocks(16, 99 * 1024, "86"), 1)  # 100 / 100


class CheckTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.table = os.path.join(folder.name, "table.txt")
        self.mma = kernel("HMMA.16816.F32 R4, R8, R12, R4\nEXIT", "SomeMma")
        self.plain = kernel(NESTED)
        machine_code.update([self.mma, self.plain], {"13.0.1"}, self.table)

    def check(self, *kernels, version="13.0.1"):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            status = machine_code.check(list(kernels), {version}, self.table)
        return status, said.getvalue()

    def fails(self, what, *kernels, version="13.0.1"):
        status, said = self.check(*kernels, version=version)
        self.assertEqual(status, 1)
        self.assertIn(what, said)

    def test_passes_what_the_table_says(self):
        self.assertEqual(self.check(self.mma, self.plain)[0], 0)

    def test_fails_on_a_predicated_matrix_instruction(self):
        self.mma.code[0].predicate = "@P0"
        self.fails("predicated", self.mma, self.plain)
        self.fails("predicated", self.mma, self.plain, version="13.9.9")

    def test_fails_where_matrix_instructions_are_gone(self):
        self.mma.code[0].name = "FFMA"
        self.fails("no matrix instruction", self.mma, self.plain)

    def test_fails_on_local_memory_in_a_loop(self):
        self.plain.code[3].name = "LDL"
        self.fails("1 instructions in loops that touch", self.mma, self.plain)

    def test_fails_on_more_registers_of_the_same_compiler_only(self):
        self.plain.registers = 65
        self.fails("65 registers, in the table 64", self.mma, self.plain)
        # Another compiler may take more, until fewer blocks fit.
        self.plain.registers = 80
        self.fails("3 resident", self.mma, self.plain, version="13.9.9")
        self.plain.registers = 56
        status, said = self.check(self.mma, self.plain, version="13.9.9")
        self.assertEqual(status, 0, said)
        self.assertIn("the table is by 13.0.1", said)

    def test_fails_on_kernels_that_came_or_went(self):
        self.fails("is in the table, but not", self.mma)
        new = kernel("EXIT", "New")
        self.fails("is not in the table", self.mma, self.plain, new)


class EstimateTest(unittest.TestCase):
    # One multiprocessor, 1 cycle a second: 2 matrix instructions take 4 cycles,
    # and 4 bytes of memory one.
    GPU = gpu_estimate.Gpu("X", "80", 2048, 4, 1, 1, 64, 32)

    def share(self, text, by_bytes):
        return gpu_estimate.share(kernel(text), self.GPU, by_bytes)

    def test_matrix_units_wait_for_the_slowest_other_unit(self):
        loop = "HMMA.16816.F32 R4, R8, R12, R4\n" * 2 + "{}@P0 BRA 0x0\nEXIT"
        self.assertEqual(self.share(loop.format(""), False), (1, "matrix"))
        # 16 additions of 32 lanes on 64, where the matrix takes 4 cycles.
        adds = "FADD R1, R1, R2\n" * 16
        self.assertEqual(
            self.share(loop.format(adds), False), (0.5, "fp32")
        )
        # 2 + 45 + 1 instructions, 4 a cycle.
        moves = "NOP\n" * 45
        self.assertEqual(
            self.share(loop.format(moves), False), (4 / 12, "issue")
        )

    def test_memory_counts_the_way_with_most_bytes(self):
        # 512 bytes of a warp's load take 128 cycles; a way around it, none.
        text = """
            @P0 BRA 0x30
            LDG.E.128 R4, [R2.64]
            BRA 0x50
            MUFU.RCP R4, R4
            LDG.E.U16 R4, [R2.64]
            EXIT
        """
        self.assertEqual(self.share(text, True), (1, "global"))
        slow = text.replace("BRA 0x50", "DADD R4, R4, R4\n" * 288 + "NOP")
        # 512 and 64 bytes take 144 cycles then, the additions 288.
        part, slowest = self.share(slow.replace("0x30", "0x1230"), True)
        self.assertEqual((part, slowest), (0.5, "fp64"))


if __name__ == "__main__":
    unittest.main()
