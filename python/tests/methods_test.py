"""The model's own methods, and what of a plain loop has no effect."""

from __future__ import annotations

import copy
import gc
import io
import tempfile
import unittest
import warnings
import weakref
from typing import Any

import castor
import peft
import torch
import transformers
from torch import nn

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

            with self.assertRaisesRegex(RuntimeError, "engine.load_checkpoint takes"):
                model.load_state_dict(state)
            self.assertEqual(bits(engine), before)
            step(engine)
            after = bits(engine)
            engine.close(keep_values=True)
        for name, function in own.items():
            self.assertIs(getattr(model, name).__func__, function)
            self.assertNotIn(name, model.__dict__)
        self.assertNotIn("__deepcopy__", model.__dict__)
        with castor.initialize(gpt2(), config_of(1, bf16, None)) as engine:
            step(engine)
            step(engine)
            self.assertEqual(bits(engine), after)

    def test_of_a_model(self) -> None:
        for bf16 in (False, True):
            for budget in (None, 60_000):
                with self.subTest(bf16=bf16, budget=budget):
                    self.uses(bf16, budget)

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


class Foreign(unittest.TestCase):
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
