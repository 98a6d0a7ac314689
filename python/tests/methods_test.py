"""The model's own methods, and what of a plain loop has no effect."""

from __future__ import annotations

import copy
import gc
import io
import pickle
import tempfile
import unittest
import warnings
import weakref
from typing import Any
from unittest import mock

import accelerate
import castor
import numpy as np
import peft
import torch
import transformers
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from torch import nn
from torch._dynamo.testing import CompileCounter

from promises_test import bytes_of, config_of
from small import Net, X, bits, engine_of, one_step

IDS = torch.arange(3, 11)[None]


def gpt2() -> transformers.PreTrainedModel:
    torch.manual_seed(0)
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            n_layer=2, n_embd=16, n_head=2, n_positions=32, vocab_size=40,
            bos_token_id=0, eos_token_id=1,
        )
    )


def step(engine: castor.Engine) -> None:
    engine.backward(engine(input_ids=IDS, labels=IDS).loss)
    engine.step()


class Methods(unittest.TestCase):
    def uses(self, bf16: bool, budget: int | None) -> None:
        model = gpt2()
        own = {name: getattr(type(model), name) for name in ("generate", "state_dict")}
        with castor.initialize(model, config_of(1, bf16, budget)) as engine:
            step(engine)
            before = bits(engine)

            # In training mode and in the other.
            asked = dict(max_new_tokens=4, do_sample=False, pad_token_id=0)
            model.eval()
            tokens = model.generate(IDS, **asked)
            self.assertTrue(
                torch.equal(tokens, engine.compute(model.generate, IDS, **asked))
            )
            model.train()
            self.assertEqual(model.generate(IDS, **asked).shape, tokens.shape)

            state = model.state_dict()
            dtype = torch.bfloat16 if bf16 else torch.float32
            for name, value in engine.state_dict().items():
                self.assertEqual(bytes_of(state[name]), bytes_of(value.to(dtype)), name)
            self.assertEqual(
                list(model.state_dict(prefix="a.")), [f"a.{name}" for name in state]
            )
            saved = io.BytesIO()
            torch.save(model.state_dict(), saved)
            saved.seek(0)
            read = torch.load(saved)
            self.assertTrue(all(torch.equal(read[name], state[name]) for name in state))

            with tempfile.TemporaryDirectory() as folder:
                model.save_pretrained(folder)
                written = type(model).from_pretrained(folder, dtype=dtype).state_dict()
            self.assertTrue(all(torch.equal(written[name], state[name]) for name in state))

            copied = copy.deepcopy(model)
            self.assertNotIn("state_dict", copied.__dict__)
            optimizer = torch.optim.SGD(copied.parameters(), lr=0.1)
            copied(input_ids=IDS, labels=IDS).loss.backward()
            optimizer.step()

            pickled = pickle.loads(pickle.dumps(model))
            self.assertNotIn("state_dict", pickled.__dict__)
            for name, value in pickled.state_dict().items():
                self.assertTrue(torch.equal(value, state[name]), name)
            pickled(input_ids=IDS, labels=IDS).loss.backward()
            self.assertEqual(bits(engine), before)
            step(engine)
            after = bits(engine)
            engine.close(keep_values=True)
        for name, function in own.items():
            self.assertIs(getattr(model, name).__func__, function)
            self.assertNotIn(name, model.__dict__)
        for name in ("__deepcopy__", "__reduce_ex__", "_compiled_call_impl"):
            self.assertNotIn(name, model.__dict__)
        with castor.initialize(gpt2(), config_of(1, bf16, None)) as engine:
            step(engine)
            step(engine)
            self.assertEqual(bits(engine), after)

    def test_of_a_model(self) -> None:
        for bf16 in (False, True):
            for budget in (None, 60_000):
                with self.subTest(bf16=bf16, budget=budget):
                    self.uses(bf16, budget)

    def test_a_call_is_the_engines(self) -> None:
        expected = None
        for how in ("plain", "eager", "call", "compiled before", "compiled after"):
            torch._dynamo.reset()
            counter = CompileCounter()
            torch.manual_seed(0)
            model = Net()
            if how == "compiled before":
                model.compile(backend=counter)
            with engine_of(model, budget=1 << 13) as engine:
                if how == "compiled after":
                    model.compile(backend=counter)
                called = engine if how == "plain" else model
                losses = []
                for _ in range(3):
                    loss = called(X)
                    losses.append(loss.item())
                    engine.backward(loss)
                    engine.step()
                called.eval()
                value = called(X)
                self.assertFalse(value.requires_grad)
                result = [losses, value.item(), bits(engine)]
                self.assertFalse(engine._steps.in_step)
                engine.train()
                with self.assertRaisesRegex(RuntimeError, r"engine.backward\(loss\)"):
                    model(X).backward()
            expected = expected or result
            self.assertEqual(result, expected, how)
            # One graph to train and one to evaluate, as without an engine.
            self.assertEqual(counter.frame_count, 2 * how.startswith("compiled"))

    def test_a_pipeline_generates(self) -> None:
        vocabulary = {"[EOS]": 1, **{f"w{i}": i for i in range(2, 40)}}
        words = Tokenizer(WordLevel(vocabulary, unk_token="w2"))
        words.pre_tokenizer = Whitespace()
        tokenizer = transformers.PreTrainedTokenizerFast(
            tokenizer_object=words, eos_token="[EOS]", pad_token="[EOS]"
        )

        def answers(model: nn.Module) -> list[Any]:
            model.eval()
            return [
                transformers.pipeline(task, model=model, tokenizer=tokenizer)(
                    "w3 w4 w5", **asked
                )
                for task, asked in (
                    ("text-generation", {"max_new_tokens": 4, "do_sample": False}),
                    ("feature-extraction", {}),
                )
            ]

        model = gpt2()
        with castor.initialize(model, config_of(1, False, 60_000)):
            self.assertEqual(answers(model), answers(gpt2()))

    def test_loading_a_state_is_that_of_torch(self) -> None:
        torch.manual_seed(1)
        other = {k: v.flip(0) for k, v in Net().state_dict().items()}
        del other["a.bias"]
        start = Net().state_dict()
        plain = Net()
        plain.load_state_dict(start)
        optimizer = torch.optim.AdamW(plain.parameters(), lr=1e-2, weight_decay=0.01)
        for i in range(4):
            if i == 2:
                missing = plain.load_state_dict(other, strict=False)
            plain(X).backward()
            optimizer.step()
            optimizer.zero_grad()
        results: list[list[bytes]] = []
        budget = None
        for policy in ("auto", "cpu", "auto"):
            model = Net()
            model.load_state_dict(start)
            config = config_of(1, False, budget)
            config["memory"]["placement_policy"] = policy
            with castor.initialize(model, config) as engine:
                for i in range(4):
                    if i == 2:
                        self.assertEqual(
                            model.load_state_dict(other, strict=False), missing
                        )
                        before = bits(engine)
                        with self.assertRaisesRegex(RuntimeError, "a.bias"):
                            model.load_state_dict({**start, "a.bias": torch.ones(3)})
                        with self.assertRaisesRegex(RuntimeError, "leave assign out"):
                            model.load_state_dict(other, assign=True)
                        self.assertEqual(bits(engine), before)
                        self.assertTrue(
                            torch.equal(engine.state_dict()["a.weight"], other["a.weight"])
                        )
                    one_step(engine, X)
                results.append(bits(engine))
                budget = engine.summary()["smallest_device_budget_bytes"]
                engine.close(keep_values=True)
            for name, value in plain.state_dict().items():
                ours = model.state_dict()[name]
                self.assertTrue(torch.allclose(value, ours, atol=1e-6), name)
            self.assertEqual(results[-1], results[0])

    def test_within_a_pass_are_the_models(self) -> None:
        with engine_of(Net()) as engine:
            one_step(engine, X)
            with torch.no_grad():
                state = engine.compute(
                    lambda: {k: v.clone() for k, v in engine.model.state_dict().items()}
                )
            for name, value in engine.state_dict().items():
                self.assertTrue(torch.equal(state[name], value))

    def test_do_not_keep_the_engine(self) -> None:
        model = Net()
        engine = weakref.ref(engine_of(model))
        gc.collect()
        self.assertIsNone(engine())
        with engine_of(Net()) as other:
            one_step(other, X)

    def test_saving_tuned_prompts(self) -> None:
        for kind in (peft.PromptTuningConfig, peft.PrefixTuningConfig):
            model = peft.get_peft_model(
                gpt2(), kind(num_virtual_tokens=4, task_type="CAUSAL_LM")
            )
            with castor.initialize(model, config_of(1, False, None)) as engine:
                step(engine)
                for save in (engine.save_pretrained, model.save_pretrained):
                    with tempfile.TemporaryDirectory() as folder:
                        save(folder)
                        read = peft.PeftModel.from_pretrained(gpt2(), folder)
                    expected = engine.state_dict()
                    name = "prompt_encoder.default.embedding.weight"
                    self.assertTrue(torch.equal(read.state_dict()[name], expected[name]))


class Hooks(unittest.TestCase):
    def test_see_gradients_in_grad_and_may_change_them(self) -> None:
        def steps(under: Any) -> tuple[list[dict[str, torch.Tensor]], Any]:
            torch.manual_seed(3)
            model = Net()
            seen: list[dict[str, torch.Tensor]] = []

            def halve(p: torch.Tensor) -> None:
                assert p.grad is not None
                p.grad.mul_(0.5)

            def keep(name: str) -> Any:
                return lambda p: seen[-1].update({name: p.grad.clone()})

            model.a.weight.register_post_accumulate_grad_hook(halve)
            run = under(model)
            next(run)
            for name, parameter in model.named_parameters():
                parameter.register_post_accumulate_grad_hook(keep(name))
            for _ in range(3):
                seen.append({})
                state = next(run)
            run.close()
            return seen, state

        def plain(model: nn.Module) -> Any:
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.01)
            yield
            while True:
                model(X).backward()
                optimizer.step()
                optimizer.zero_grad()
                yield model.state_dict()

        def engine(budget: int | None) -> Any:
            def ours(model: nn.Module) -> Any:
                with engine_of(model, budget=budget) as run:
                    yield
                    while True:
                        one_step(run, X)
                        assert all(p.grad is None for p in model.parameters())
                        yield run.state_dict()

            return ours

        theirs, expected = steps(plain)
        for budget in (None, 1 << 13):
            seen, state = steps(engine(budget))
            for mine, other in zip(seen, theirs):
                self.assertEqual(set(mine), set(other))
                for name, value in other.items():
                    self.assertTrue(torch.allclose(mine[name], value, atol=1e-6), name)
            for name, value in expected.items():
                self.assertTrue(torch.allclose(state[name], value, atol=1e-6), name)

    def test_stay_with_the_model(self) -> None:
        model = Net()
        calls: list[int] = []
        model.a.weight.register_post_accumulate_grad_hook(lambda p: calls.append(1))
        for _ in range(2):
            with engine_of(model) as engine:
                one_step(engine, X)
                engine.close(keep_values=True)
        model(X).backward()
        self.assertEqual(len(calls), 3)


class Foreign(unittest.TestCase):
    def setUp(self) -> None:
        # What a process has told, and has seen.
        for name, value in (("_told_of", set()), ("_rates_are_given", False)):
            changed = mock.patch.object(castor._foreign, name, value)
            changed.start()
            self.addCleanup(changed.stop)

    def test_what_has_no_effect_is_told_once(self) -> None:
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        elsewhere = torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1)
        other = torch.optim.lr_scheduler.StepLR(elsewhere, 1)
        with engine_of(model) as engine, warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            for _ in range(2):
                engine.backward(engine(X))
                elsewhere.step()
                other.step()
                for parameters in (list(model.parameters()), [torch.zeros(2)]):
                    nn.utils.clip_grad_norm_(parameters, 1.0)
                schedule.step()
                engine.step()
            ours = [w for w in told if str(w.message).startswith("castor: ")]
            words = sorted(str(warning.message) for warning in ours)
            self.assertEqual(len(words), 2, words)
            self.assertIn("StepLR.step() does nothing", words[0])
            self.assertIn("clip_grad_norm_ does nothing", words[1])
            self.assertEqual({warning.filename for warning in ours}, {__file__})

    def test_schedules_that_make_the_engines_rates_are_not_told_of(self) -> None:
        model = Net()
        schedule = torch.optim.lr_scheduler.StepLR(
            torch.optim.SGD(model.parameters(), lr=0.1), 1
        )
        with engine_of(model) as engine, warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            engine.backward(engine(X))
            engine.step(learning_rate=schedule.get_last_lr()[0])
            schedule.step()
        self.assertFalse([w for w in told if str(w.message).startswith("castor: ")])

    def test_accelerate_is_told_what_to_prepare(self) -> None:
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        accelerator = accelerate.Accelerator(cpu=True)
        with engine_of(model) as engine:
            for each in (model, optimizer):
                with self.assertRaisesRegex(ValueError, "prepare the loader alone"):
                    accelerator.prepare(each)
            loader = accelerator.prepare(torch.utils.data.DataLoader(list(X)))
            one_step(engine, next(iter(loader)))

    def test_numpy_gets_copies_alone(self) -> None:
        model = Net()
        with engine_of(model) as engine, torch.no_grad():

            def array(copies: bool) -> Any:
                weight = model.a.weight.detach()
                return np.asarray(weight.clone() if copies else weight)

            for call in (array, lambda c: engine.compute(array, c)):
                with self.assertRaises(RuntimeError):
                    call(False)
            expected = engine.state_dict()["a.weight"].numpy()
            self.assertTrue((engine.compute(array, True) == expected).all())

    def test_optimizers_are_told_once(self) -> None:
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        elsewhere = torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1)
        with engine_of(model) as engine, warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            for _ in range(2):
                engine.backward(engine(X))
                optimizer.step()
                elsewhere.step()
                engine.step()
            words: list[Any] = [str(warning.message) for warning in told]
            self.assertEqual(len(words), 1, words)
            self.assertIn("SGD.step() does nothing", words[0])
            self.assertIn("engine.step() updates them", words[0])


if __name__ == "__main__":
    unittest.main()
