"""What an engine holds and frees, and what it saves."""

from __future__ import annotations

import gc
import random
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings
import weakref
from typing import Any

import castor
import torch
import transformers
from castor import _gpu_memory
from torch import nn

from models import causal
from promises_test import config_of
from small import Net, X, bits, engine_of, one_step


class Memory(unittest.TestCase):
    def test_engine_gone_frees_all(self) -> None:
        model = Net()
        engine = engine_of(model)
        one_step(engine, X)
        gone = [weakref.ref(model), weakref.ref(engine), weakref.ref(model.a.weight)]
        gc.disable()  # no cycle may be needed to find them
        try:
            del model, engine
            self.assertEqual([r() for r in gone], [None] * 3)
        finally:
            gc.enable()

    def test_engine_gone_gives_the_system_its_bytes_back(self) -> None:
        # A process of its own has a model of 16 MB with its gradients and states.
        # What the C library keeps of freed memory is nobody's.
        program = (
            "import ctypes, gc, castor, torch\n"
            "from torch import nn\n"
            "def resident():\n"
            "    pages = open('/proc/self/statm').read().split()[1]\n"
            "    return int(pages) * 4096\n"
            "def train(width):\n"
            "    with castor.ZeroInit({}):\n"
            "        model = nn.Sequential(*[nn.Linear(width, width) for _ in range(4)])\n"
            "    engine = castor.initialize(model)\n"
            "    for _ in range(3):\n"
            "        engine.backward(engine(torch.ones(2, width)).sum())\n"
            "        engine.step()\n"
            "    return resident()\n"
            "train(8)\n"
            "gc.disable()\n"
            "before = resident()\n"
            "held = train(1024)\n"
            "ctypes.CDLL(None).malloc_trim(0)\n"
            "print(held - before, resident() - before)\n"
        )
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        held, left = map(int, done.stdout.split())
        model = 4 * 1024 * 1024 * 4
        self.assertGreater(held, 4 * model)
        self.assertLess(left, model // 8)

    def test_outputs_outlive_steps_and_the_engine(self) -> None:
        class Gives(Net):
            def forward(self, x: torch.Tensor) -> tuple:
                loss = super().forward(x)
                return loss, (x * 2).detach()

        engine = engine_of(Gives())
        start = engine.claimed_bytes
        kept = []
        for _ in range(3):
            loss, out = engine(X)
            engine.backward(loss)
            engine.step()
            kept.append(out)
        del loss, out
        held = engine.claimed_bytes
        self.assertEqual(held - start, 3 * (64 + 4 * 8 * 4))
        del kept[0]
        held = engine.claimed_bytes
        self.assertEqual(held - start, 2 * (64 + 4 * 8 * 4))
        engine.close()
        for out in kept:
            self.assertTrue(torch.equal(out, X * 2))
        thread = threading.Thread(target=kept.clear)
        thread.start()
        thread.join()

    def test_host_allocations_are_not_counted(self) -> None:
        engine = engine_of(Net())
        one_step(engine, X)
        before = engine.claimed_bytes
        host = torch.zeros(1000)
        self.assertEqual(engine.claimed_bytes, before)
        host.resize_(2000)
        engine.close()
        host.resize_(4000)
        self.assertEqual(host.numel(), 4000)

    def test_other_threads_are_not_counted(self) -> None:
        class Busy(Net):
            """Another thread allocates within its passes, and frees later."""

            def __init__(self, busy: bool) -> None:
                super().__init__()
                self.busy = busy
                self.theirs: list[torch.Tensor] = []

            def work(self, *_: object) -> None:
                if not self.busy:
                    return
                thread = threading.Thread(
                    target=lambda: self.theirs.append(torch.zeros(100_000))
                )
                thread.start()
                thread.join()

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                self.work()
                loss = super().forward(x)
                loss.register_hook(self.work)
                return loss

        figures = []
        for busy in (False, True):
            torch.manual_seed(0)
            model = Busy(busy)
            with engine_of(model) as engine:
                losses = [one_step(engine, X) for _ in range(4)]
                model.theirs.clear()
                summary = engine.summary()
                figures.append(
                    (
                        losses,
                        summary["device_peak_bytes"],
                        summary["smallest_device_budget_bytes"],
                        summary["recorded_steps"],
                        engine.claimed_bytes,
                    )
                )
        self.assertEqual(figures[0], figures[1])

    def test_buffers_count(self) -> None:
        model = nn.Sequential(nn.BatchNorm1d(8), Net())
        with engine_of(model) as engine:
            # running mean, running variance, and their number of batches
            used = engine.claimed_bytes
            self.assertEqual(used, 3 * (64 + 64))

    def test_fork_in_a_data_loader(self) -> None:
        model = Net()
        data = torch.utils.data.TensorDataset(X)
        loader = torch.utils.data.DataLoader(data, batch_size=2, num_workers=1)
        with engine_of(model) as engine:
            for (x,) in loader:
                one_step(engine, x)
            self.assertEqual(engine.global_steps, 2)

    def test_parameters_taken_out_of_the_model(self) -> None:
        model = Net()
        with engine_of(model) as engine:
            # A plain one instead, which nothing trains.
            model.b = nn.Linear(8, 1).requires_grad_(False)
            one_step(engine, X)
            self.assertEqual(set(engine.state_dict()), set(model.state_dict()))

    def test_exit_with_an_open_engine(self) -> None:
        program = (
            "import castor, torch; "
            "m = torch.nn.Linear(2, 1); "
            "e = castor.initialize(m, {}); l = e(torch.ones(1, 2)).sum(); "
            "e.backward(l)"
        )
        done = subprocess.run([sys.executable, "-c", program])
        self.assertEqual(done.returncode, 0)


class TorchCuda(unittest.TestCase):
    def test_figures_are_the_engines(self) -> None:
        # As `initialize` on a GPU does it; what it shows is any run's.
        changed: list[tuple[Any, str]] = [
            (module, name)
            for module in (torch.cuda, torch.cuda.memory)
            for name in (
                *_gpu_memory._RESETS, "memory_stats_as_nested_dict", "memory_snapshot",
            )
            if hasattr(module, name)
        ]
        for module, name in changed:
            self.addCleanup(setattr, module, name, getattr(module, name))
        with engine_of(Net(), budget=1 << 16) as engine:
            _gpu_memory.show_in_torch_cuda(engine._run)
            loss = engine(X)
            self.assertEqual(torch.cuda.memory_allocated(), engine.claimed_bytes)
            self.assertGreater(torch.cuda.memory_allocated(), 0)
            engine.backward(loss)
            engine.step()
            peak = engine.summary()["device_peak_bytes"]
            self.assertEqual(torch.cuda.max_memory_allocated(), peak)
            self.assertEqual(torch.cuda.memory_reserved(), 1 << 16)
            self.assertEqual(torch.cuda.max_memory_reserved(), 1 << 16)
            self.assertEqual(torch.cuda.memory_stats()["num_ooms"], 0)
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                for _ in range(2):
                    torch.cuda.reset_peak_memory_stats()
            self.assertEqual(len(told), 1)
            self.assertIn("device_peak_bytes", str(told[0].message))
            with self.assertRaisesRegex(RuntimeError, "engine.trace"):
                torch.cuda.memory_snapshot()
        self.assertEqual(torch.cuda.memory_allocated(), 0)
        self.assertEqual(torch.cuda.max_memory_allocated(), 0)


class Budgets(unittest.TestCase):
    """`set_device_memory`."""

    def trained(self, budgets: list[str | int]) -> list[bytes]:
        torch.manual_seed(5)
        x = torch.ones(4, 64)
        with engine_of(Net(64), 1, 1 << 20) as engine:
            for budget in ["1MiB", *budgets]:
                engine.set_device_memory(budget)
                one_step(engine, x)
                engine.eval()
                engine(x)
                engine.train()
            return bits(engine)

    def test_another_budget_between_steps_changes_no_bit(self) -> None:
        with engine_of(Net(64), 1, 1 << 20) as engine:
            for _ in range(3):
                one_step(engine, torch.ones(4, 64))
            least = engine.summary()["smallest_device_budget_bytes"]
        expected = self.trained([1 << 20] * 7)
        budgets: list[str | int] = ["4MiB", least, 2 * least, "1MiB", least, least + 256]
        self.assertEqual(self.trained([*budgets, "16 MiB"]), expected)

    def test_too_little_is_refused_and_the_run_goes_on(self) -> None:
        x = torch.ones(4, 64)
        with engine_of(Net(64), 1, 1 << 20) as engine:
            for _ in range(3):
                one_step(engine, x)
            least = engine.summary()["smallest_device_budget_bytes"]
            with self.assertRaisesRegex(castor.Refused, "goes on with 1.00 MiB") as at:
                engine.set_device_memory(least - 1)
            self.assertTrue(at.exception.exact)
            self.assertEqual(at.exception.smallest_device_budget_bytes, least)
            self.assertEqual(engine.summary()["device_budget_bytes"], 1 << 20)
            one_step(engine, x)
            engine.set_device_memory(least)
            self.assertEqual(engine.summary()["device_budget_bytes"], least)
            one_step(engine, x)
            for size in ("much", "unlimited", -1):
                with self.assertRaisesRegex(ValueError, "set_device_memory"):
                    engine.set_device_memory(size)
            engine(x)
            with self.assertRaisesRegex(RuntimeError, "between steps"):
                engine.set_device_memory("1MiB")


class Saving(unittest.TestCase):
    def test_save_pretrained_reads_back(self) -> None:
        for bf16 in (False, True):
            case = causal("gpt2", random.Random(2), 1)
            model = case.make()
            with (
                castor.initialize(model, config_of(1, bf16, None)) as engine,
                tempfile.TemporaryDirectory() as directory,
            ):
                engine.train_batch(case.batches)
                engine.save_pretrained(directory)
                read = transformers.GPT2LMHeadModel.from_pretrained(directory)
                expected = engine.state_dict()
                dtype = torch.bfloat16 if bf16 else torch.float32
                for name, value in read.state_dict().items():
                    self.assertEqual(value.dtype, dtype)
                    self.assertTrue(torch.equal(value, expected[name].to(dtype)))

    def test_close_with_values(self) -> None:
        model = Net()
        engine = engine_of(model)
        one_step(engine, X)
        expected = engine.state_dict()
        engine.close(keep_values=True)
        for name, value in model.state_dict().items():
            self.assertTrue(torch.equal(value, expected[name]))
        model(X).backward()
        with engine_of(model) as again:
            one_step(again, X)


if __name__ == "__main__":
    unittest.main()
