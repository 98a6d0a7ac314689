"""What programs do to a model while an engine has it."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import unittest
import weakref

import castor
import torch
from torch import nn

from small import Net, X, bits, engine_of, one_step


class Changed(unittest.TestCase):
    def test_data_assigned_between_steps_is_told_by_name(self) -> None:
        for values in (torch.zeros(8, 8), torch.zeros(3)):
            model = Net()
            with engine_of(model) as engine:
                one_step(engine, X)
                before = bits(engine)
                model.a.weight.data = values
                for call in (lambda: engine(X), lambda: self.evaluate(engine)):
                    with self.assertRaisesRegex(
                        RuntimeError, "a.weight was changed behind"
                    ) as caught:
                        call()
                    self.assertNotIn("\n", str(caught.exception).split("Exception")[0])
                # Nothing of the engine's is lost, and with it the model goes on.
                self.assertEqual(bits(engine), before)
                state = engine.state_dict()
            model = Net()
            model.load_state_dict(state)
            with engine_of(model) as engine:
                self.assertEqual(bits(engine), before)
                one_step(engine, X)

    def evaluate(self, engine: castor.Engine) -> None:
        with torch.no_grad():
            engine(X)

    def test_two_parameters_exchanged(self) -> None:
        model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
        with engine_of(model) as engine:
            a, b = model[0].weight, model[1].weight
            a.data, b.data = b.data, a.data
            with self.assertRaisesRegex(RuntimeError, "0.weight was changed behind"):
                engine(X)
            a.data, b.data = b.data, a.data
            engine.backward(engine(X).sum())
            engine.step()

    def test_a_parameter_that_came_later_is_told_by_name(self) -> None:
        model = Net()
        with engine_of(model) as engine:
            before = bits(engine)
            model.late = nn.Parameter(torch.zeros(3))
            with self.assertRaisesRegex(RuntimeError, "parameter late came to"):
                engine(X)
            self.evaluate(engine)
            model.late.requires_grad_(False)
            one_step(engine, X)
            del model.late
            self.assertNotEqual(bits(engine), before)
            one_step(engine, X)

    def test_a_parameter_that_is_trained_later_is_told_by_name(self) -> None:
        model = Net()
        model.a.weight.requires_grad_(False)
        with engine_of(model) as engine:
            model.a.weight.requires_grad_(True)
            with self.assertRaisesRegex(RuntimeError, "a.weight was frozen at"):
                engine(X)
            self.evaluate(engine)
            model.a.weight.requires_grad_(False)
            one_step(engine, X)

    def test_a_refusal_is_followed_once(self) -> None:
        class Deep(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.layers = nn.Sequential(*(nn.Linear(96, 96) for _ in range(5)))

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return self.layers(x).square().mean()

        def smallest_after_steps(budget: int) -> int:
            with engine_of(Deep(), budget=budget) as engine:
                for _ in range(3):
                    one_step(engine, torch.ones(16, 96))
                smallest: int = engine.summary()["smallest_device_budget_bytes"]
                return smallest

        smallest = smallest_after_steps(1 << 22)
        with self.assertRaisesRegex(castor.Refused, "foreseen to fit in") as caught:
            smallest_after_steps(smallest // 3)
        self.assertFalse(caught.exception.exact)
        told = caught.exception.smallest_device_budget_bytes
        self.assertEqual(smallest_after_steps(told), smallest)

    def test_a_refusal_leaves_the_model_as_it_was(self) -> None:
        class Caches(Net):
            def __init__(self) -> None:
                super().__init__()
                self.norm = nn.BatchNorm1d(8)
                self.scale: torch.Tensor | None = None

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                if self.scale is None or len(self.scale) != len(x):
                    self.scale = torch.ones(len(x), 1)
                return super().forward(self.norm(x) * self.scale)

        model = Caches()
        with engine_of(model, budget=40_000) as engine:
            model.norm.eval()
            one_step(engine, X)
            before = bits(engine)
            with self.assertRaises(castor.Refused):
                one_step(engine, torch.randn(4000, 8))
            self.assertFalse(model.norm.training)
            self.assertEqual(bits(engine), before)
            self.assertIs(type(model.scale), torch.Tensor)
            one_step(engine, X)

    def test_backward_without_a_pass_in_a_later_micro_batch(self) -> None:
        with engine_of(Net(), micro_batches=2) as engine:
            loss = engine(X)
            engine.backward(loss)
            engine.step()
            with self.assertRaisesRegex(RuntimeError, "without a forward pass"):
                engine.backward(loss)
            engine.abort()
            one_step(engine, X)

    def test_a_refusal_names_outputs_that_were_kept(self) -> None:
        class Wide(Net):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                y = super().forward(x)
                self.out = (y + torch.zeros(4000)).detach()
                return y

        kept = []
        with engine_of(Wide(), budget=100_000) as engine:
            with self.assertRaisesRegex(
                castor.Refused, r"; \d{5} bytes of what it takes are tensors that"
            ):
                for _ in range(12):
                    one_step(engine, X)
                    kept.append(engine.model.out)
            kept.clear()
            one_step(engine, X)

    def test_values_of_a_closed_engine(self) -> None:
        model = Net()
        engine_of(model).close()
        with self.assertRaisesRegex(RuntimeError, "a.weight went with its engine"):
            model.a.weight.sum()

    def test_data_assigned_inside_forward(self) -> None:
        class Assigns(Net):
            assign = False

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                if self.assign:
                    self.b.weight.data = torch.zeros(1, 8)
                return super().forward(x)

        model = Assigns()
        with engine_of(model) as engine:
            one_step(engine, X)
            before = bits(engine)
            model.assign = True
            with self.assertRaisesRegex(RuntimeError, "b.weight was changed behind"):
                one_step(engine, X)
            self.assertEqual(bits(engine), before)

    def test_writes_outside_are_told_by_name(self) -> None:
        model = Net()
        with engine_of(model) as engine:
            before = bits(engine)
            state = {k: torch.zeros_like(v) for k, v in engine.state_dict().items()}
            for write in (
                lambda: nn.init.zeros_(model.a.weight),
                lambda: model.a.weight.data.fill_(1),
                lambda: model.a.load_state_dict({"weight": state["a.weight"]}, False),
                lambda: model.half(),
            ):
                with self.assertRaisesRegex(RuntimeError, "a.weight"):
                    write()
            with self.assertRaisesRegex(RuntimeError, "leave assign out"):
                model.load_state_dict(state, assign=True)
            self.assertEqual(bits(engine), before)
            one_step(engine, X)


class Interrupts(unittest.TestCase):
    def test_in_forward_backward_and_evaluation(self) -> None:
        class Interrupted(Net):
            where = ""

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                x = torch.tanh(self.a(x))
                if self.where == "forward":
                    raise KeyboardInterrupt
                if self.where == "backward":
                    x.register_hook(self.interrupt)
                return self.b(x).mean()

            def interrupt(self, gradient: torch.Tensor) -> None:
                raise KeyboardInterrupt

        def run(where: str) -> list[bytes]:
            torch.manual_seed(0)
            model = Interrupted()
            with engine_of(model) as engine:
                one_step(engine, X)
                if where:
                    before = bits(engine)
                    model.where = where.removeprefix("evaluation's ")
                    with self.assertRaises(KeyboardInterrupt):
                        if where.startswith("evaluation"):
                            with torch.no_grad():
                                engine(X)
                        one_step(engine, X)
                    model.where = ""
                    self.assertEqual(bits(engine), before)
                    self.assertEqual(engine.global_steps, 1)
                one_step(engine, X)
                return bits(engine)

        expected = run("")
        for where in ("forward", "backward", "evaluation's forward"):
            with self.subTest(where):
                self.assertEqual(run(where), expected)


class Forked(unittest.TestCase):
    def test_a_forked_process_is_told_and_can_end(self) -> None:
        # As a data loader's worker that was given the model. A hang is a failure.
        program = (
            "import os, sys, castor\n"
            "from small import Net, X, engine_of, one_step\n"
            "model = Net()\n"
            "engine = engine_of(model)\n"
            "one_step(engine, X)\n"
            "loss = engine(X)\n"
            "child = os.fork()\n"
            "if child == 0:\n"
            "    for call in (lambda: engine.backward(loss), engine.abort,\n"
            "                 lambda: engine(X), engine.state_dict):\n"
            "        try:\n"
            "            call()\n"
            "        except RuntimeError as error:\n"
            "            print(str(error).splitlines()[0])\n"
            "    del loss\n"
            "    engine.close()\n"
            "    with engine_of(Net()) as own:\n"
            "        one_step(own, X)\n"
            "    sys.exit(0)\n"
            "assert os.waitpid(child, 0)[1] == 0\n"
            "engine.backward(loss)\n"
            "engine.step()\n"
            "print(engine.global_steps)\n"
        )
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program], capture_output=True,
            text=True, timeout=120, cwd=os.path.dirname(os.path.abspath(__file__)),
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        *told, steps = done.stdout.splitlines()
        self.assertEqual(len(told), 3, told)
        for line in told:
            self.assertRegex(line, "castor: this process was forked from the one")
        self.assertEqual(steps, "2")


class Versions(unittest.TestCase):
    def test_a_torch_without_a_shim_is_refused_by_name(self) -> None:
        program = "import torch; torch.__version__ = '2.8.1+cpu'; import castor"
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True
        )
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"ImportError: castor: .* torch 2\.8\.1\+cpu")
        self.assertRegex(done.stderr, r"it has .*_shim_2_\d+")


class Gone(unittest.TestCase):
    def test_no_cycle_keeps_what_failed(self) -> None:
        # The model and all memory go with their last references, whatever
        # became of the steps: no collection of cycles is needed.
        model = Net()
        engine = engine_of(model, budget=1 << 20)
        one_step(engine, X)
        model.fail = True
        with self.assertRaises(KeyError):
            engine(X)
        model.fail = False
        with self.assertRaises(castor.Refused):
            engine(X.repeat(100000, 1))
        one_step(engine, X)
        start = engine.claimed_bytes
        one_step(engine, X)
        self.assertEqual(engine.claimed_bytes, start)
        gone = [weakref.ref(x) for x in (model, engine, model.a.weight)]
        gc.collect()  # of the test's own errors
        gc.disable()
        try:
            del model, engine
            self.assertEqual([r() for r in gone], [None] * 3)
        finally:
            gc.enable()

    def test_a_closed_engine_does_not_keep_the_model(self) -> None:
        model = Net()
        engine = engine_of(model)
        one_step(engine, X)
        engine.close(keep_values=True)
        del engine
        gone = weakref.ref(model.a.weight)
        gc.disable()
        try:
            del model
            self.assertIsNone(gone())
        finally:
            gc.enable()


if __name__ == "__main__":
    unittest.main()
