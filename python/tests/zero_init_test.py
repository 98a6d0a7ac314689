"""Models that are made under ZeroInit: their values, and what the host holds."""

from __future__ import annotations

import copy
import gc
import random
import subprocess
import sys
import tempfile
import unittest
from typing import Callable

import castor
import torch
import transformers
from torch import nn

from models import MAKERS, Odd
from promises_test import bytes_of, config_of
from small import Net, X, one_step

CONFIG = config_of(1, False, None)


# Makes a model, takes it over, and says what that took of the process's memory.
# All parameters but one are frozen and have no optimizer states.
PROCESS = """
import gc, threading
from pathlib import Path
import castor, torch
from torch import nn

def anonymous_bytes():
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return 1024 * int(line.split()[1])

peak, over = 0, threading.Event()

def watch():
    global peak
    while not over.wait(0.001):
        peak = max(peak, anonymous_bytes())

castor.initialize(nn.Linear(8, 8), {}).close()
# After a large block was freed the C library takes smaller ones from its heap,
# where what is freed stays.
torch.zeros(1 << 22)
gc.collect()
before = anonymous_bytes()
watcher = threading.Thread(target=watch)
watcher.start()
with castor.ZeroInit({}):
    model = nn.Sequential(*[nn.Linear(512, 1024) for _ in range(40)])
model.requires_grad_(False)
model[0].bias.requires_grad_(True)
sizes = [4 * p.numel() for p in model.parameters()]
engine = castor.initialize(model)
over.set()
watcher.join()
managed = engine.summary()["host_peak_bytes"]
print(sum(sizes), max(sizes), managed, peak - before)
"""


def wide_gpt2(layers: int = 2) -> transformers.GPT2Config:
    return transformers.GPT2Config(
        vocab_size=300, n_embd=128, n_layer=layers, n_head=2, n_positions=32,
        bos_token_id=0, eos_token_id=1,
    )


def bytes_and_two_largest(model: nn.Module) -> int:
    """The bytes of all parameters and buffers and of the two largest once more,
    each counted as a block."""
    tensors = [*model.parameters(), *model.buffers()]
    blocks = sorted(64 + (t.nbytes + 63) // 64 * 64 for t in tensors)
    return sum(blocks) + sum(blocks[-2:])


class Values(unittest.TestCase):
    def same(self, make: Callable[[], nn.Module]) -> nn.Module:
        torch.manual_seed(7)
        plain = make()
        drawn = torch.rand(1)
        torch.manual_seed(7)
        with castor.ZeroInit(CONFIG) as scope:
            model = make()
        self.assertTrue(torch.equal(torch.rand(1), drawn))
        expected, actual = plain.state_dict(), model.state_dict()
        self.assertEqual(list(actual), list(expected))
        for name, value in expected.items():
            self.assertEqual(actual[name].dtype, value.dtype, name)
            self.assertEqual(bytes_of(actual[name]), bytes_of(value), name)
        return model

    def test_every_family(self) -> None:
        for name, maker in MAKERS.items():
            with self.subTest(name):
                self.same(maker(random.Random(name), 1).make)

    def test_from_config_and_from_pretrained(self) -> None:
        auto = transformers.AutoModelForCausalLM
        model = self.same(lambda: auto.from_config(wide_gpt2()))
        with tempfile.TemporaryDirectory() as directory:
            model.save_pretrained(directory)
            read = self.same(lambda: auto.from_pretrained(directory))
            self.assertIs(read.lm_head.weight, read.transformer.wte.weight)
            # A head that the file does not have is drawn.
            kind = transformers.GPT2ForSequenceClassification
            self.same(lambda: kind.from_pretrained(directory))
            half = self.same(
                lambda: auto.from_pretrained(directory, dtype=torch.bfloat16)
            )
            self.assertEqual(half.dtype, torch.bfloat16)
            # Without bf16 in the configuration they become fp32.
            expected = half.state_dict()["transformer.wpe.weight"].float()
            with castor.initialize(half) as engine:
                self.assertEqual(half.dtype, torch.float32)
                state = engine.state_dict()["transformer.wpe.weight"]
                self.assertTrue(torch.equal(state, expected))

    def test_training_is_the_same(self) -> None:
        def losses(scope: bool) -> list[float]:
            torch.manual_seed(0)
            if scope:
                with castor.ZeroInit(CONFIG):
                    model = Net()
            else:
                model = Net()
            with castor.initialize(model, None if scope else CONFIG) as engine:
                return [one_step(engine, X) for _ in range(3)]

        self.assertEqual(losses(True), losses(False))


class HostBytes(unittest.TestCase):
    def test_while_a_model_is_made_and_taken_over(self) -> None:
        auto = transformers.AutoModelForCausalLM
        with tempfile.TemporaryDirectory() as directory:
            auto.from_config(wide_gpt2()).save_pretrained(directory)
            makers: dict[str, Callable[[], nn.Module]] = {
                "constructor": lambda: Odd(256),
                "from_config": lambda: auto.from_config(wide_gpt2()),
                "from_pretrained": lambda: auto.from_pretrained(directory),
            }
            for name, make in makers.items():
                with self.subTest(name):
                    with castor.ZeroInit(CONFIG) as scope:
                        model = make()
                    bound = bytes_and_two_largest(model)
                    if name != "from_pretrained":  # else it is the file, mapped
                        self.assertGreater(2 * scope.host_bytes, bound)
                    self.assertLessEqual(scope.host_peak_bytes, bound)
                    with castor.initialize(model):
                        gc.collect()
                        buffers = sum(b.nbytes + 128 for b in model.buffers())
                        self.assertLessEqual(scope.host_bytes, buffers + 1024)

    def test_of_the_process(self) -> None:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", PROCESS],
            capture_output=True,
            text=True,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        model, largest, managed, peak = map(int, done.stdout.split())
        # Managed memory is little more than the model's own, so that holding
        # both would show.
        self.assertLess(managed, model * 5 // 4)
        slack = model // 4  # of the interpreter, and of pages that are begun
        self.assertLess(peak, managed + 2 * largest + slack)


class Errors(unittest.TestCase):
    def test_scope_in_a_scope(self) -> None:
        with castor.ZeroInit(CONFIG):
            with self.assertRaisesRegex(RuntimeError, "a scope inside a scope"):
                with castor.ZeroInit(CONFIG):
                    pass
            model = Net()  # the scope goes on
        with castor.ZeroInit(CONFIG):
            pass
        castor.initialize(model).close()

    def test_exception_inside_closes_the_scope(self) -> None:
        with self.assertRaises(KeyError):
            with castor.ZeroInit(CONFIG):
                raise KeyError
        with castor.ZeroInit(CONFIG):
            pass
        with self.assertRaisesRegex(ValueError, "no configuration"):
            castor.initialize(Net())

    def test_another_configuration(self) -> None:
        other = config_of(2, False, None)
        with castor.ZeroInit(CONFIG):
            model = Net()
        with self.assertRaisesRegex(ValueError, "gradient_accumulation_steps is not what"):
            castor.initialize(model, other)
        engine = castor.initialize(model, copy.deepcopy(CONFIG))  # says the same
        engine.close(keep_values=True)
        with castor.ZeroInit(other):
            with self.assertRaisesRegex(ValueError, "gradient_accumulation_steps is not what"):
                castor.initialize(nn.Sequential(model, nn.Linear(2, 2)))
            engine = castor.initialize(Net())  # made outside, by no scope: taken
            self.assertEqual(engine.gradient_accumulation_steps, 2)

    def test_a_file_that_cannot_be_read_is_told_at_once(self) -> None:
        with self.assertRaisesRegex(ValueError, "nowhere.* cannot be read"):
            castor.ZeroInit("/nowhere/run.json")

    def test_parts_that_are_added_later_are_taken_over(self) -> None:
        with castor.ZeroInit(CONFIG):
            model = Net()
        model.b = nn.Sequential(model.b, nn.Linear(1, 1))
        expected = {k: bytes_of(v) for k, v in model.state_dict().items()}
        with castor.initialize(model) as engine:
            state = {k: bytes_of(v) for k, v in engine.state_dict().items()}
            self.assertEqual(state, expected)
            one_step(engine, X)


if __name__ == "__main__":
    unittest.main()
