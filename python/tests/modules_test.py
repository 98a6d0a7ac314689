"""What models do beside calling modules in a row, and LoRA adapters of peft.

Each model trains for some steps beside plain PyTorch, under the least budget
that does; the tolerance is that of parity_test.
"""

from __future__ import annotations

import gc
import os
import tempfile
import unittest
import unittest.mock
from collections.abc import Callable
from typing import Any

import castor
import peft
import torch
import transformers
from torch import nn
from torch.utils.checkpoint import checkpoint

from models import Odd
from parity_test import TOLERANCE
from promises_test import bytes_of, config_of
from small import Net, X, bits, engine_of, one_step

STEPS = 5


def train_plain(model: nn.Module, batch: dict[str, Any]) -> list[float]:
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-3, weight_decay=0.01, eps=1e-4)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        output = model(**batch)
        loss = output if isinstance(output, torch.Tensor) else output.loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


class Penalty(nn.Module):
    """A loss with a gradient of a gradient, taken within forward."""

    def __init__(self) -> None:
        super().__init__()
        self.net = Net(16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.detach().requires_grad_()
        loss = self.net(x)
        (gradient,) = torch.autograd.grad(loss, x, create_graph=True)
        return loss + gradient.square().sum()


class Twice(torch.autograd.Function):
    """A backward within backward, as reentrant checkpointing has it."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, net: nn.Module) -> torch.Tensor:
        ctx.net = net
        ctx.save_for_backward(x)
        with torch.no_grad():
            return net(x)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        (x,) = ctx.saved_tensors
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            checkpoint(ctx.net, x, use_reentrant=True).backward(g)
        return x.grad, None


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.net = Net(16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return Twice.apply(self.first(x), self.net)


class Hooks(nn.Module):
    """Every kind of hook that reads or changes something."""

    def __init__(self) -> None:
        super().__init__()
        self.net = Net(16)
        self.scale = nn.Parameter(torch.randn(16))
        self.calls: list[str] = []
        a, b = self.net.a, self.net.b
        a.register_forward_pre_hook(lambda _, x: (x[0] * self.scale,))
        a.register_forward_hook(lambda m, x, y: y + m.bias.square())
        b.register_full_backward_pre_hook(lambda *_: self.calls.append("pre"))
        b.register_full_backward_hook(lambda *_: self.calls.append("full"))
        a.weight.register_hook(lambda g: g * 2)
        self.register_forward_hook(lambda *_: self.calls.append("forward"))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.clone().requires_grad_()
        x.register_hook(lambda g: self.calls.append("tensor"))
        return self.net(x)


class ScaledAttention(nn.Module):
    """MultiheadAttention with weights asked for, in a ParameterDict's company."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.scales = nn.ParameterDict({"x": torch.randn(16), "y": torch.randn(16)})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = (x * self.scales["x"])[None]
        y, weights = self.attention(x, x, x)
        return (y * self.scales["y"]).square().mean() + weights.square().sum()


class Beside(unittest.TestCase):
    def hold(
        self, make: Callable[[], nn.Module], batch: dict[str, Any]
    ) -> castor.Engine:
        torch.manual_seed(1)
        expected = train_plain(make(), batch)
        config = config_of(1, False, None)
        config["optimizer"]["params"].update(lr=1e-3, eps=1e-4)
        torch.manual_seed(1)
        with castor.initialize(make(), config) as engine:
            engine.train_batch([batch])
            least = engine.summary()["smallest_device_budget_bytes"]
        config["memory"]["device_memory"] = least
        torch.manual_seed(1)
        engine = castor.initialize(make(), config)
        self.addCleanup(engine.close)
        for step, theirs in enumerate(expected):
            ours = engine.train_batch([batch]).item()
            self.assertAlmostEqual(ours, theirs, delta=TOLERANCE, msg=str(step))
        return engine


class Modules(Beside):
    def test_gradient_of_a_gradient(self) -> None:
        self.hold(Penalty, {"x": torch.cat([X, X], 1)})

    def test_backward_within_backward(self) -> None:
        self.hold(Nested, {"x": X})

    def test_hooks(self) -> None:
        engine = self.hold(Hooks, {"x": torch.cat([X, X], 1)})
        self.assertEqual(
            engine.model.calls, ["forward", "pre", "full", "tensor"] * STEPS
        )

    def test_attention_and_parameter_dict(self) -> None:
        self.hold(ScaledAttention, {"x": torch.cat([X, X], 1)})

    def test_parameter_list_and_shared_layers(self) -> None:
        ids = torch.randint(0, 20, (2, 5))
        self.hold(lambda: Odd(16), {"ids": ids, "labels": ids})


class Cast(nn.Module):
    """Under autocast, which keeps a copy of each weight in bf16 until it ends."""

    def __init__(self, keeps: bool = True) -> None:
        super().__init__()
        self.shared = nn.Linear(64, 64)
        self.last = nn.Linear(64, 1)
        self.keeps = keeps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16, cache_enabled=self.keeps):
            for _ in range(3):
                x = torch.tanh(self.shared(x))
            return self.last(x).float().mean()


class Autocast(unittest.TestCase):
    x = torch.randn(4, 64, generator=torch.Generator().manual_seed(0))

    def train(
        self, budget: int | None, keeps: bool = True, around: bool = False
    ) -> tuple[list[Any], dict[str, Any]]:
        torch.manual_seed(1)
        model = Cast(keeps)
        with (
            engine_of(model, budget=budget) as engine,
            torch.autocast("cpu", torch.bfloat16, enabled=around),
        ):
            losses = [one_step(engine, self.x) for _ in range(4)]
            return [losses, bits(engine)], engine.summary()

    def test_begins_as_in_pytorch_and_has_the_same_bits_at_any_budget(self) -> None:
        expected, summary = self.train(None)
        torch.manual_seed(1)
        self.assertEqual(expected[0][0], Cast()(self.x).item())
        self.assertEqual(len(set(expected[0])), 4)
        least = summary["smallest_device_budget_bytes"]
        self.assertEqual(self.train(least)[0], expected)

    def test_copies_that_it_keeps_count(self) -> None:
        held = []
        for keeps in (True, False):
            with engine_of(Cast(keeps)) as engine:
                loss = engine(self.x)
                held.append(engine.claimed_bytes)
                engine.backward(loss)
        # Backward wants the shared weight for two of its uses, of which each has a
        # copy of its own, or both one.
        self.assertEqual(held[1] - held[0], 64 + 64 * 64 * 2)

    def test_copies_of_the_step_before_are_not_read(self) -> None:
        self.assertEqual(self.train(None, around=True)[0], self.train(None)[0])


def blocks_compiled(backend: str, checkpointing: bool = False) -> nn.Module:
    """A Llama whose blocks are under torch.compile, by either way to say so."""
    model = llama()
    if checkpointing:
        model.gradient_checkpointing_enable()
    layers = model.model.layers
    layers[0] = torch.compile(layers[0], backend=backend)
    layers[1].compile(backend=backend)
    return model


class Widths(nn.Module):
    """A compiled part that shapes, and a graph break, make several graphs of."""

    def __init__(self) -> None:
        super().__init__()
        self.net = Net(16)
        self.net.a.weight.requires_grad_(False)
        self.scale = nn.Parameter(torch.randn(16))
        self.compute = torch.compile(self._compute, backend="aot_eager")

    def _compute(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.tanh(self.net.a(x))
        torch._dynamo.graph_break()
        return (self.net.b(torch.dropout(x, 0.1, True)) * self.scale).square().mean()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.compute(x)


class Blocks(nn.Module):
    """Two blocks by inductor, in code that is quickly compiled."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Net(16) for _ in range(2))
        for block in self.blocks:
            block.compile(options={"cpp.simdlen": 1})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.blocks[1](x * self.blocks[0](x))


class Compiled(Beside):
    """Modules under torch.compile, whose graphs read several parameters."""

    batch = {"input_ids": torch.arange(3, 15).reshape(2, 6)}
    batch["labels"] = batch["input_ids"]

    def setUp(self) -> None:
        torch._dynamo.reset()
        # What is freed is overwritten, so that reading it shows.
        patch = unittest.mock.patch.dict(os.environ, CASTOR_SCRIBBLE="1")
        patch.start()
        self.addCleanup(patch.stop)

    def same_bits(
        self, make: Callable[[], nn.Module], batches: list[dict[str, Any]]
    ) -> None:
        """At every budget, down to the smallest."""

        def train(budget: int | None) -> tuple[list[Any], dict[str, Any]]:
            torch.manual_seed(1)
            with castor.initialize(make(), config_of(1, False, budget)) as engine:
                losses = [engine.train_batch([b]).item() for b in batches]
                state = engine.state_dict().values()
                return [losses, *map(bytes_of, state)], engine.summary()

        expected, summary = train(None)
        most = summary["device_peak_bytes"]
        least = summary["smallest_device_budget_bytes"]
        self.assertLess(least, most)
        for budget in (least, (least + most) // 2):
            bits, summary = train(budget)
            self.assertTrue(bits == expected, budget)
            self.assertLessEqual(summary["device_peak_bytes"], budget)
        with self.assertRaises(castor.Refused):
            train(least - 1)

    def test_blocks_by_their_operators(self) -> None:
        make = lambda: blocks_compiled("aot_eager", checkpointing=True)  # noqa: E731
        self.hold(make, self.batch)
        self.same_bits(make, [self.batch] * 2)

    def test_blocks_by_inductor(self) -> None:
        batch = {"x": torch.randn(6, 16)}
        engine = self.hold(Blocks, batch)
        least = engine.summary()["smallest_device_budget_bytes"]
        self.same_bits(Blocks, [batch] * 2)
        with castor.initialize(Blocks(), config_of(1, False, least - 1)) as engine:
            with self.assertRaises(castor.Refused) as caught:
                engine.train_batch([batch])
        self.assertRegex(
            caught.exception.operator, "castor::compiled_graph.blocks.[01].a.weight."
        )

    def test_function_with_other_shapes_and_graph_breaks(self) -> None:
        wide, narrow = torch.randn(6, 16), torch.randn(3, 16)
        batches = [{"x": x} for x in (wide, wide, narrow, wide, narrow)]
        self.same_bits(Widths, batches)

    def test_whole_model(self) -> None:
        make = lambda: torch.compile(Net(16), backend="aot_eager")  # noqa: E731
        self.hold(make, {"x": torch.randn(3, 16)})

    def test_saved_under_plain_names(self) -> None:
        model = blocks_compiled("eager")
        with (
            castor.initialize(model, config_of(1, False, None)) as engine,
            tempfile.TemporaryDirectory() as folder,
        ):
            engine.save_pretrained(folder)
            read = transformers.LlamaForCausalLM.from_pretrained(folder)
            state = read.state_dict()
            for ours, theirs in zip(engine.state_dict().values(), state.values()):
                self.assertTrue(torch.equal(ours, theirs))

    def test_foreseen_without_compiling(self) -> None:
        config = config_of(1, False, None)
        plain = castor.plan(llama(), config, self.batch)
        model = blocks_compiled("aot_eager")
        self.assertEqual(castor.plan(model, config, self.batch).summary(), plain.summary())

    def test_graphs_of_cuda_are_refused_in_one_line(self) -> None:
        from torch._inductor import output_code

        # On the CPU inductor makes none, whatever it is asked for.
        options = {"cpp.simdlen": 1, "triton.cudagraphs": True}
        model = Net()
        model.compile(options=options)
        expected = self.losses_of_two_steps(Net())
        for loss, plain in zip(self.losses_of_two_steps(model), expected):
            self.assertAlmostEqual(loss, plain, places=5)
        compiled = [
            each for each in gc.get_objects()
            if type(each) is output_code.CompiledFxGraph
        ]
        self.assertTrue(compiled)
        # What it notes of a graph that it will make one of.
        asked = output_code.CudagraphCachedInfo([], [], [])
        with engine_of(model) as engine:
            one_step(engine, X)
            before = bits(engine)
            for graph in compiled:
                self.assertIsNone(graph.cudagraph_info)
                graph.cudagraph_info = asked
            with self.assertRaisesRegex(RuntimeError, 'leave out mode="reduce-overhead"'):
                engine(X)
            self.assertEqual(bits(engine), before)
            for graph in compiled:
                graph.cudagraph_info = None
            one_step(engine, X)

    def losses_of_two_steps(self, model: nn.Module) -> list[float]:
        torch.manual_seed(2)
        for parameter in model.parameters():
            nn.init.normal_(parameter)
        with engine_of(model) as engine:
            losses = [one_step(engine, X) for _ in range(2)]
            engine.close(keep_values=True)
            return losses

    def test_compiled_autograd_is_refused_in_one_line(self) -> None:
        with engine_of(Net()) as engine:
            loss = engine(X)
            with (
                torch._dynamo.compiled_autograd._enable(torch.compile),
                self.assertRaisesRegex(RuntimeError, "castor: compiled autograd"),
            ):
                engine.backward(loss)
            one_step(engine, X)


def llama() -> nn.Module:
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            num_hidden_layers=2, hidden_size=32, intermediate_size=64,
            num_attention_heads=2, num_key_value_heads=1, vocab_size=40,
            max_position_embeddings=16, tie_word_embeddings=False,
            bos_token_id=0, eos_token_id=1, pad_token_id=2,
        )
    )


def adapted() -> nn.Module:
    config = peft.LoraConfig(
        r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM",
        init_lora_weights=False,  # so that both factors have gradients at once
    )
    return peft.get_peft_model(llama(), config)


def adapted_experts() -> nn.Module:
    """An adapter of parameters that are no layer's weights."""
    model = transformers.Qwen3MoeForCausalLM(
        transformers.Qwen3MoeConfig(
            hidden_size=16, intermediate_size=24, moe_intermediate_size=8,
            num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
            head_dim=8, num_experts=4, num_experts_per_tok=2, vocab_size=40,
            max_position_embeddings=16, tie_word_embeddings=False,
            bos_token_id=0, eos_token_id=1, pad_token_id=2,
        )
    )
    config = peft.LoraConfig(
        r=4, lora_alpha=8, target_modules=["q_proj"], task_type="CAUSAL_LM",
        target_parameters=["mlp.experts.gate_up_proj", "mlp.experts.down_proj"],
        init_lora_weights=False,
    )
    return peft.get_peft_model(model, config)


class Adversaries(unittest.TestCase):
    """A generator and what judges it, in one engine, which train by turns."""

    STEPS = 8

    def losses(self, managed: bool) -> tuple[list[float], int]:
        torch.manual_seed(0)
        nets = nn.ModuleDict(
            {
                "make": nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8)),
                "judge": nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)),
            }
        )
        make, judge = nets["make"], nets["judge"]
        real = torch.randn(16, 8)

        def judged(x: torch.Tensor, is_real: bool) -> torch.Tensor:
            return nn.functional.softplus(judge(x) * (-1 if is_real else 1)).mean()

        def of_judge() -> torch.Tensor:
            with torch.no_grad():
                fake = make(real[:, :4])
            return judged(real, True) + judged(fake, False)

        def of_make() -> torch.Tensor:
            return judged(make(real[:, 4:]), True)

        losses, engine = [], None
        optimizer = torch.optim.AdamW(
            nets.parameters(), lr=1e-3, weight_decay=0.01, eps=1e-4
        )
        if managed:
            params = {"lr": 1e-3, "weight_decay": 0.01, "eps": 1e-4}
            settings = {"optimizer": {"type": "AdamW", "params": params}}
            engine = castor.initialize(nets, settings)
        for step in range(2 * self.STEPS):
            judge.requires_grad_(step % 2 == 0)
            function = of_judge if step % 2 == 0 else of_make
            if engine is not None:
                loss = engine.compute(function)
                engine.backward(loss)
                engine.step()
            else:
                optimizer.zero_grad()
                loss = function()
                loss.backward()
                optimizer.step()
            losses.append(loss.item())
        recorded = engine.summary()["recorded_steps"] if engine is not None else 0
        if engine is not None:
            engine.close()
        return losses, recorded

    def test_as_in_pytorch(self) -> None:
        ours, recorded = self.losses(managed=True)
        plain, _ = self.losses(managed=False)
        for a, b in zip(ours, plain, strict=True):
            self.assertAlmostEqual(a, b, delta=TOLERANCE)
        self.assertLessEqual(recorded, 4)

    def test_two_engines_are_told_of_the_way(self) -> None:
        with engine_of(Net()) as engine, engine_of(Net()) as other:
            with self.assertRaisesRegex(RuntimeError, "one model that has both"):
                engine.compute(lambda: other.model(X))


class Lora(Beside):
    batch = {"input_ids": torch.arange(3, 15).reshape(2, 6)}
    batch["labels"] = batch["input_ids"]

    def test_losses_and_frozen_weights(self) -> None:
        torch.manual_seed(1)
        before = adapted().state_dict()
        engine = self.hold(adapted, self.batch)
        changed = [
            name
            for name, value in engine.state_dict().items()
            if not torch.equal(value, before[name])
        ]
        self.assertEqual(changed, [name for name in before if "lora_" in name])
        # Frozen weights have 4 bytes each, trained ones 16 and less than 20.
        trained = sum(p.numel() for p in engine.model.parameters() if p.requires_grad)
        whole = sum(p.numel() for p in engine.model.parameters())
        self.assertLess(engine.summary()["host_peak_bytes"], 6 * whole + 20 * trained)

    def test_fused_experts(self) -> None:
        engine = self.hold(adapted_experts, self.batch)
        names = [n for n, _ in engine.model.named_parameters() if "experts" in n]
        self.assertEqual(len([n for n in names if "lora_" in n]), 2 * 2 * 2)

    def test_adapters_are_saved_and_read_back(self) -> None:
        torch.manual_seed(1)
        with (
            castor.initialize(adapted(), config_of(1, False, None)) as engine,
            tempfile.TemporaryDirectory() as folder,
        ):
            engine.train_batch([self.batch])
            engine.save_pretrained(folder)
            torch.manual_seed(1)
            read = peft.PeftModel.from_pretrained(llama(), folder)
            expected = engine.state_dict()
            names = {name for name in expected if "lora_" in name}
            self.assertEqual(len(names), 2 * 2 * 2)
            for name, value in read.state_dict().items():
                if name in names:
                    self.assertTrue(torch.equal(value, expected[name]), name)

    def test_trainer(self) -> None:
        rows = [{k: v[i] for k, v in self.batch.items()} for i in (0, 1)]
        with tempfile.TemporaryDirectory() as folder:
            arguments = transformers.TrainingArguments(
                output_dir=folder, use_cpu=True, report_to=[], max_steps=2,
                disable_tqdm=True, save_strategy="no",
            )
            losses = []
            for kind, more in (
                (transformers.Trainer, {}),
                (castor.Trainer, {"castor": {"memory": {}}}),
            ):
                torch.manual_seed(1)
                trainer = kind(adapted(), arguments, train_dataset=rows, **more)
                trainer.remove_callback(transformers.PrinterCallback)
                losses.append(trainer.train().training_loss)
            self.assertAlmostEqual(*losses, delta=TOLERANCE)
            trainer.save_model()
            peft.PeftModel.from_pretrained(llama(), folder)


if __name__ == "__main__":
    unittest.main()
