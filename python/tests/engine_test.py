"""What the engine refuses and reports, and evaluation."""

from __future__ import annotations

import random
import unittest
from collections.abc import Callable
from typing import Any

import castor
import torch
from torch import nn

from models import causal
from promises_test import bytes_of, config_of
from small import Net, X, bits, engine_of, one_step


class Initialize(unittest.TestCase):
    def refuses(self, model: nn.Module, *words: str) -> None:
        with self.assertRaises(ValueError) as caught:
            engine_of(model)
        message = str(caught.exception)
        self.assertNotIn("\n", message)
        for word in words:
            self.assertIn(word, message)

    def test_views_that_share_memory(self) -> None:
        model = Net()
        whole = torch.zeros(16, 8)
        model.a.weight = nn.Parameter(whole[:8])
        model.extra = nn.Parameter(whole[4:12])
        self.refuses(model, "a.weight", "extra", "share memory")

    def test_parts_of_one_storage_apart_are_taken(self) -> None:
        model = Net()
        whole = torch.randn(16, 8)
        model.a.weight = nn.Parameter(whole[:8])
        model.extra = nn.Parameter(whole[8:])
        expected = whole.clone()
        with engine_of(model) as engine:
            state = engine.state_dict()
            self.assertTrue(torch.equal(state["extra"], expected[8:]))

    def test_transposed_parameter_keeps_its_values(self) -> None:
        model = Net()
        values = torch.randn(8, 8)
        model.a.weight = nn.Parameter(values.t())
        with engine_of(model) as engine:
            self.assertTrue(torch.equal(engine.state_dict()["a.weight"], values.t()))

    def test_complex_sparse_meta_and_quantized(self) -> None:
        model = Net()
        model.c = nn.Parameter(torch.zeros(2, dtype=torch.complex64))
        self.refuses(model, "parameter c", "complex64")
        model.c = nn.Parameter(torch.zeros(2, 2).to_sparse())
        self.refuses(model, "parameter c", "sparse")
        model.c = nn.Parameter(torch.zeros(2, device="meta"))
        self.refuses(model, "parameter c", "meta")
        model.c = nn.Parameter(torch.zeros(2, dtype=torch.int8), requires_grad=False)
        self.refuses(model, "parameter c", "int8")

    def test_lazy(self) -> None:
        self.refuses(nn.Sequential(nn.LazyLinear(2)), "0.weight", "no shape")

    def test_second_engine(self) -> None:
        model = Net()
        with engine_of(model):
            self.refuses(model, "a.weight", "has an engine already")

    def test_no_parameters(self) -> None:
        self.refuses(nn.ReLU(), "no parameters")

    def test_configuration(self) -> None:
        with self.assertRaisesRegex(ValueError, "no configuration"):
            castor.initialize(Net())
        with self.assertRaisesRegex(ValueError, "cannot be read"):
            castor.initialize(Net(), "/nowhere/run.json")
        with self.assertRaisesRegex(ValueError, "bogus"):
            castor.initialize(Net(), {"bogus": 1})
        with self.assertRaises(ValueError) as caught:
            castor.initialize(Net(), {"bogus": 1, "seed": -1})
        self.assertRegex(
            str(caught.exception),
            r"\Acastor.initialize: config: seed: expected .*\n"
            r"castor.initialize: config: bogus: unknown key.*\Z",
        )
        wrong: Any = [1]
        for make in (castor.ZeroInit, lambda c: castor.initialize(Net(), c)):
            with self.assertRaisesRegex(ValueError, "a path or a mapping.* list"):
                make(wrong)
            with self.assertRaisesRegex(ValueError, "b'1'.* bytes"):
                make({"seed": b"1"})

    def test_zero_init_has_the_configuration(self) -> None:
        with castor.ZeroInit(config_of(3, False, None)):
            engine = castor.initialize(Net())
        self.assertEqual(engine.gradient_accumulation_steps, 3)

    def test_sample_batch_that_fits_changes_nothing(self) -> None:
        torch.manual_seed(3)
        model = Net()
        before = [bytes_of(v) for v in model.state_dict().values()]
        state = torch.get_rng_state()
        with engine_of(model, sample_batch=[X]) as engine:
            self.assertEqual(bits(engine), before)
            self.assertEqual(engine.global_steps, 0)
            self.assertTrue(torch.equal(torch.get_rng_state(), state))
            one_step(engine, X)

    def test_sample_batch_that_does_not_fit_gives_the_model_back(self) -> None:
        model = Net()
        before = [bytes_of(v) for v in model.state_dict().values()]
        for budget in (0, 1100):  # too little for parameters; for the rest
            with self.assertRaises(castor.Refused):
                engine_of(model, budget=budget, sample_batch=[X])
        after = [bytes_of(v) for v in model.state_dict().values()]
        self.assertEqual(before, after)
        model(X).backward()
        self.assertIsNotNone(model.a.weight.grad)

    def test_a_model_that_was_read_trains(self) -> None:
        model = Net().eval()  # as from_pretrained leaves it
        with engine_of(model, sample_batch=(X,)) as engine:
            one_step(engine, X)
            self.assertTrue(model.a.training)
        model = Net().eval()
        with self.assertRaises(castor.Refused):
            engine_of(model, budget=1, sample_batch=(X,))
        self.assertFalse(model.training)
        model = Net()
        model.b.eval()  # what a program has chosen itself stays
        with engine_of(model, sample_batch=(X,)):
            self.assertFalse(model.b.training)

    def test_bf16(self) -> None:
        model = Net()
        with castor.initialize(model, config_of(1, True, None)) as engine:
            self.assertEqual(model.a.weight.dtype, torch.bfloat16)
            one_step(engine, X)
            self.assertEqual(engine.state_dict()["a.weight"].dtype, torch.float32)


class Uses(unittest.TestCase):
    def test_read_outside_names_the_parameter(self) -> None:
        model = Net()
        with engine_of(model):
            for read in (
                lambda: model.a.weight.sum().item(),
                lambda: model.a.weight.numpy(force=True),
                lambda: model.a.weight.data_ptr(),
                lambda: model.a(X),
            ):
                with self.assertRaisesRegex(RuntimeError, "a.(weight|bias)"):
                    read()

    def test_views_of_absent_parameters_follow(self) -> None:
        model = Net()
        view = model.a.weight.detach().t()[1:, None]

        class Reads(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.net = model

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                view = self.net.a.weight.t()[1:, None]
                self.net.b(x)  # another use in between
                return view.sum() + self.net(x)

        expected = view.sum() + model(X)
        with engine_of(Reads()) as engine:
            self.assertEqual(engine(X).item(), expected.item())

    def test_shapes_can_be_asked_for_at_any_time(self) -> None:
        model = Net()
        with engine_of(model):
            self.assertEqual(model.a.weight.shape, (8, 8))
            self.assertEqual(model.a.weight.t().stride(), (1, 8))
            self.assertEqual(torch.zeros_like(model.a.weight).sum().item(), 0)

    def test_write_inside_is_an_error(self) -> None:
        class Writes(Net):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                with torch.no_grad():
                    self.a.weight.mul_(2)
                return super().forward(x)

        model = Writes()
        with engine_of(model) as engine:
            before = bits(engine)
            with self.assertRaisesRegex(RuntimeError, "aten::mul_ writes .* a.weight"):
                engine(X)
            self.assertEqual(bits(engine), before)

    def test_value_of_a_parameter_inside(self) -> None:
        class Prints(Net):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                self.seen = self.a.weight.detach().clone().reshape(-1)[3].item()
                return super().forward(x)

        model = Prints()
        expected = model.a.weight.detach().reshape(-1)[3].item()
        with engine_of(model) as engine:
            engine(X)
            self.assertEqual(model.seen, expected)

    def test_backward_through_updated_parameters(self) -> None:
        model = Net()
        with engine_of(model) as engine:
            old = engine(X)
            one_step(engine, X)
            engine(X)
            with self.assertRaisesRegex(RuntimeError, "modified by an inplace"):
                engine.backward(old)
            one_step(engine, X)

    def test_two_engines_take_turns(self) -> None:
        first, second = Net(), Net()
        with engine_of(first) as one, engine_of(second) as other:
            one_step(one, X)
            one_step(other, X)
            one_step(one, X)

            class Both(nn.Module):
                def __init__(self) -> None:
                    super().__init__()
                    self.own = nn.Linear(8, 8)

                def forward(self, x: torch.Tensor) -> torch.Tensor:
                    return first(self.own(x))

            with engine_of(nn.Sequential(nn.Linear(8, 8))) as third:
                third.model[0].forward = lambda x: first(x)
                with self.assertRaisesRegex(RuntimeError, "another engine"):
                    third(X)


class Failures(unittest.TestCase):
    def test_exception_in_forward(self) -> None:
        torch.manual_seed(0)
        model = Net()
        with engine_of(model, micro_batches=2) as engine:
            before = bits(engine)
            engine.backward(engine(X))
            engine.step()
            model.fail = True
            with self.assertRaisesRegex(KeyError, "from the model"):
                engine(X)
            model.fail = False
            self.assertEqual(bits(engine), before)
            losses = []
            for _ in range(2):
                losses.append(engine(X))
                engine.backward(losses[-1])
                engine.step()
            self.assertEqual(engine.global_steps, 1)
            self.assertNotEqual(bits(engine), before)

    def test_exception_in_backward(self) -> None:
        class Bad(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.clone()

            @staticmethod
            def backward(ctx, g):
                raise KeyError("from backward")

        model = Net()
        with engine_of(model) as engine:
            before = bits(engine)
            with self.assertRaisesRegex(KeyError, "from backward"):
                engine.backward(engine(Bad.apply(X.clone().requires_grad_())))
            self.assertTrue(all(p.grad is None for p in model.parameters()))
            self.assertEqual(bits(engine), before)
            one_step(engine, X)

    def test_refusal_at_a_later_step(self) -> None:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Dropout(0.5), Net())
        with engine_of(model) as engine:
            one_step(engine, X)
            peak = 2 * engine.summary()["device_peak_bytes"]
        torch.manual_seed(0)
        model = nn.Sequential(nn.Dropout(0.5), Net())
        with engine_of(model, budget=peak) as engine:
            one_step(engine, X)
            before, state = bits(engine), torch.get_rng_state()
            with self.assertRaises(castor.Refused) as caught:
                one_step(engine, X.repeat(100, 1))
            refused = caught.exception
            self.assertGreater(refused.peak_bytes, X.nbytes * 100)
            self.assertGreater(refused.smallest_device_budget_bytes, peak)
            self.assertTrue(refused.operator)
            self.assertEqual(bits(engine), before)
            self.assertTrue(torch.equal(torch.get_rng_state(), state))
            one_step(engine, X)

    def test_calls_out_of_order(self) -> None:
        model = Net()
        engine = engine_of(model)
        with self.assertRaisesRegex(RuntimeError, "without a forward"):
            engine.backward(torch.zeros(()))
        with self.assertRaisesRegex(RuntimeError, "without backward"):
            engine.step()
        loss = engine(X)
        with self.assertRaisesRegex(ValueError, r"one element, not a float32\["):
            engine.backward(X)
        engine.backward(loss)
        with self.assertRaisesRegex(RuntimeError, "second backward"):
            engine.backward(loss)
        with self.assertRaisesRegex(RuntimeError, "between backward and step"):
            engine(X)
        engine.close()
        engine.close()
        with self.assertRaisesRegex(RuntimeError, "closed"):
            engine(X)

    def test_what_is_no_model_and_no_list_of_micro_batches(self) -> None:
        with self.assertRaisesRegex(TypeError, "is a list"):
            castor.initialize([Net()], {})
        with engine_of(Net()) as engine:
            with self.assertRaisesRegex(TypeError, "several micro batches"):
                engine.train_batch({"x": X})
            self.assertIn("of Net, ", repr(engine))
        self.assertIn("of Net, closed", repr(engine))

    def test_a_batch_without_a_loss_gives_the_step_up(self) -> None:
        with engine_of(nn.Linear(8, 8)) as engine:
            before = bits(engine)
            with self.assertRaisesRegex(ValueError, "no loss of one element"):
                engine.train_batch([X])
            self.assertEqual(bits(engine), before)
            engine.backward(engine(X).sum())
            engine.step()

    def test_backward_outside_the_engine(self) -> None:
        model = Net()
        with engine_of(model) as engine:
            loss = engine(X)
            with self.assertRaisesRegex(RuntimeError, "castor: "):
                loss.backward()
            engine.abort()
            one_step(engine, X)

    def test_sparse_gradient(self) -> None:
        model = nn.Sequential(nn.Embedding(5, 3, sparse=True))
        with engine_of(model) as engine:
            with self.assertRaisesRegex(RuntimeError, "0.weight is sparse"):
                engine.backward(engine(torch.tensor([1, 2])).sum())


class Undone(unittest.TestCase):
    def test_backward_that_differs_is_run_again(self) -> None:
        class Differs(Net):
            def __init__(self) -> None:
                super().__init__()
                self.extra = nn.Parameter(torch.randn(500))
                self.register_buffer("count", torch.zeros(()))
                self.more = False

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                x = self.a(x)
                self.count.add_(1)
                if x.requires_grad:
                    x.register_hook(self.late)
                return self.b(torch.tanh(x)).mean()

            def late(self, gradient: torch.Tensor) -> torch.Tensor:
                # It comes when b has its gradients already.
                if self.more:
                    return gradient * self.extra.detach().mean() + self.b.weight.sum()
                return gradient

        def own_loss(engine: castor.Engine, x: torch.Tensor) -> None:
            engine.backward(engine(x) * 1)
            engine.step()

        def writes_its_inputs(engine: castor.Engine, x: torch.Tensor) -> None:
            x = x.clone()
            loss = engine(x)
            x.add_(0)
            engine.backward(loss)
            engine.step()

        def loss_in_place(engine: castor.Engine, x: torch.Tensor) -> None:
            loss = engine(x)
            loss.mul_(1)
            engine.backward(loss)
            engine.step()

        def batch(engine: castor.Engine, x: torch.Tensor) -> None:
            engine.train_batch([[x]])

        def run(one_step: Callable[..., Any]) -> tuple[list[bytes], int]:
            torch.manual_seed(0)
            model, undone = Differs(), 0
            with engine_of(model, budget=1 << 20) as engine:
                for step in range(4):
                    model.more = step >= 2
                    before = bits(engine)
                    passes = model.count.item()
                    try:
                        one_step(engine, X)
                    except castor.StepUndone:
                        undone += 1
                        self.assertEqual(bits(engine), before)
                        self.assertEqual(model.count.item(), passes)
                        one_step(engine, X)
                    self.assertEqual(model.count.item(), passes + 1)
                self.assertEqual(engine.global_steps, 4)
                return bits(engine), undone

        actual, undone = run(own_loss)
        self.assertEqual(undone, 1)
        for cannot in (writes_its_inputs, loss_in_place):
            self.assertEqual(run(cannot), (actual, 1))
        for by_itself in (one_step, batch):
            self.assertEqual(run(by_itself), (actual, 0))

        # PyTorch itself gives the same.
        torch.manual_seed(0)
        model = Differs()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.01)
        for step in range(4):
            model.more = step >= 2
            optimizer.zero_grad()
            model(X).backward()
            optimizer.step()
        for value, expected in zip(actual, model.state_dict().values()):
            value = torch.frombuffer(bytearray(value), dtype=torch.float32)
            error = (value - expected.reshape(-1)).abs().max().item()
            self.assertLess(error, 1e-5)


class LastMicroBatch(unittest.TestCase):
    def test_step_that_ends_early_is_one_of_fewer_micro_batches(self) -> None:
        def run(
            micro_batches: int, used: int, budget: int | None
        ) -> tuple[list[bytes], int]:
            torch.manual_seed(0)
            with engine_of(Net(), micro_batches, budget) as engine:
                for step in range(4):
                    # Whole steps in between, so that plans are met again.
                    whole = step % 2 == 1 and micro_batches > used
                    for _ in range(micro_batches if whole else 0):
                        engine.backward(engine(X), scale=0.0)
                        engine.step(learning_rate=0.0)
                    for number in range(used):
                        engine.backward(engine(X[number:]), scale=0.5)
                        updated = engine.step(last=number == used - 1)
                        self.assertEqual(updated, number == used - 1)
                least = engine.summary()["smallest_device_budget_bytes"]
                return bits(engine), least

        short, least = run(3, 2, None)
        self.assertEqual(run(3, 2, least)[0], short)
        self.assertEqual(run(3, 2, 4 * least)[0], short)

        # One that has as many as a step takes: the same sum.
        torch.manual_seed(0)
        with engine_of(Net(), 2) as engine:
            first = [engine.global_steps, *self.two(engine)]
        torch.manual_seed(0)
        with engine_of(Net(), 3) as engine:
            self.assertEqual([engine.global_steps, *self.two(engine)], first)

    def two(self, engine: castor.Engine) -> list[bytes]:
        for number in range(2):
            engine.backward(engine(X[number:]), scale=0.5)
            engine.step(last=number == 1)
        return bits(engine)

    def test_function_that_computes_a_loss(self) -> None:
        torch.manual_seed(0)
        model = Net()
        with engine_of(model) as engine:
            expected = one_step(engine, X)
        torch.manual_seed(0)
        model = Net()

        def loss_of(x: torch.Tensor) -> torch.Tensor:
            return model(x) + 0 * model.a.weight.sum()

        with engine_of(model) as engine:
            loss = engine.compute(loss_of, X)
            engine.backward(loss)
            engine.step()
            self.assertEqual(loss.item(), expected)


class Evaluation(unittest.TestCase):
    def test_between_steps_and_within_a_step(self) -> None:
        def run(evaluate: bool) -> list[bytes]:
            torch.manual_seed(0)
            model = Net()
            with engine_of(model, micro_batches=2) as engine:
                for step in range(3):
                    for _ in range(2):
                        loss = engine(X)
                        if evaluate:
                            with torch.no_grad():
                                engine(X[:2])
                        engine.backward(loss)
                        engine.step()
                        if evaluate:
                            engine.eval()
                            out = engine(X[:2])
                            self.assertFalse(out.requires_grad)
                            engine.train()
                    if evaluate:
                        with torch.no_grad():
                            engine(X[:3])
                return bits(engine)

        self.assertEqual(run(True), run(False))

    def test_generation(self) -> None:
        case = causal("gpt2", random.Random(1), 1)
        model = case.make().eval()
        ids = case.batches[0]["input_ids"]
        with torch.no_grad():
            expected = model(ids).logits
        with engine_of(model) as engine:
            engine.eval()
            self.assertTrue(torch.equal(engine(ids).logits, expected))


if __name__ == "__main__":
    unittest.main()
