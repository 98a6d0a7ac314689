"""TRL's trainers by castor.wrap beside themselves: losses, what they log of their
own, evaluations and parameters. The tolerance is that of trainer_test."""

from __future__ import annotations

import os
import tempfile
import unittest
from collections.abc import Callable
from typing import Any

import castor
import datasets
import peft
import tokenizers
import torch
import transformers
import trl

from parity_test import TOLERANCE

_WORDS = ["[PAD]", "[BOS]", "[EOS]", "[UNK]", *(f"w{i}" for i in range(60))]
_SIZES = {
    "vocab_size": len(_WORDS), "hidden_size": 32, "intermediate_size": 64,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 2,
}  # fmt: skip


def tokenizer() -> Any:
    of_words = tokenizers.Tokenizer(
        tokenizers.models.WordLevel(
            {word: i for i, word in enumerate(_WORDS)}, unk_token="[UNK]"
        )
    )
    of_words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=of_words,
        pad_token="[PAD]", bos_token="[BOS]", eos_token="[EOS]", unk_token="[UNK]",
    )  # fmt: skip


def rows(**columns: Callable[[int], Any]) -> datasets.Dataset:
    return datasets.Dataset.from_list(
        [{name: make(i) for name, make in columns.items()} for i in range(8)]
    )


PREFERENCES = rows(
    prompt=lambda i: f"w{i} w{i + 1}",
    chosen=lambda i: f" w{i % 7} w9",
    rejected=lambda i: " w8 w7",
)


class TrlTest(unittest.TestCase):
    """Each trainer learns for four steps of two micro batches."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        # DPO reads its reference model from where the model came from.
        torch.manual_seed(1)
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**_SIZES))
        model.save_pretrained(self.folder)
        tokenizer().save_pretrained(self.folder)

    def model(self) -> Any:
        return transformers.AutoModelForCausalLM.from_pretrained(self.folder)

    def train(
        self,
        trainer: Any,
        config: Any,
        make: Callable[[], dict[str, Any]],
        more: dict[str, Any],
        named: dict[str, Any],
    ) -> tuple[Any, list[dict[str, float]]]:
        arguments = config(
            output_dir=os.path.join(self.folder, "out"), use_cpu=True, bf16=False,
            report_to=[], max_steps=4, per_device_train_batch_size=2,
            gradient_accumulation_steps=2, learning_rate=5e-3, save_strategy="no",
            logging_steps=1, disable_tqdm=True, seed=5, **more,
        )  # fmt: skip
        torch.manual_seed(5)
        trains = trainer(
            args=arguments, processing_class=tokenizer(), **make(), **named
        )
        trains.train()
        if trains.eval_dataset is not None:
            trains.evaluate()
        return trains, trains.state.log_history

    def compare(
        self,
        trainer: Any,
        config: Any,
        make: Callable[[], dict[str, Any]],
        **more: Any,
    ) -> None:
        plain, expected = self.train(trainer, config, make, more, {})
        wrapped, logged = self.train(
            castor.wrap(trainer), config, make, more,
            {"castor": {"memory": {"device_memory": "32MiB"}}},
        )  # fmt: skip
        self.assertIsInstance(wrapped, trainer)
        self.assertEqual(len(logged), len(expected))
        losses = [entry["loss"] for entry in expected if "loss" in entry]
        self.assertEqual(len(losses), 4)
        for ours, theirs in zip(logged, expected):
            self.assertEqual(ours.keys(), theirs.keys())
            for key, value in theirs.items():
                if "time" not in key and "per_second" not in key:
                    self.assertAlmostEqual(
                        ours[key], value, delta=TOLERANCE * (1 + abs(value)), msg=key
                    )
        values = wrapped.engine.state_dict()
        for name, value in plain.model.state_dict().items():
            torch.testing.assert_close(
                values[name], value, rtol=0, atol=TOLERANCE
            )
        wrapped.engine.close()

    def test_supervised(self) -> None:
        def make() -> dict[str, Any]:
            text = rows(text=lambda i: f"w{i} w9 w8 w{i % 7}")
            return {
                "model": self.model(), "train_dataset": text, "eval_dataset": text,
            }  # fmt: skip

        self.compare(trl.SFTTrainer, trl.SFTConfig, make)

    def test_direct_preferences(self) -> None:
        def make() -> dict[str, Any]:
            return {
                "model": self.model(), "train_dataset": PREFERENCES,
                "eval_dataset": PREFERENCES,
            }  # fmt: skip

        self.compare(trl.DPOTrainer, trl.DPOConfig, make)

    def test_direct_preferences_of_an_adapter(self) -> None:
        def make() -> dict[str, Any]:
            return {
                "model": self.model(), "train_dataset": PREFERENCES,
                "eval_dataset": PREFERENCES,
                "peft_config": peft.LoraConfig(
                    r=4, target_modules=["q_proj"], task_type="CAUSAL_LM"
                ),
            }  # fmt: skip

        self.compare(trl.DPOTrainer, trl.DPOConfig, make)
        # The trainer calls the model itself, between steps.
        self.compare(
            trl.DPOTrainer, trl.DPOConfig, make, precompute_ref_log_probs=True
        )

    def test_a_reward_model(self) -> None:
        def make() -> dict[str, Any]:
            torch.manual_seed(2)
            model = transformers.AutoModelForSequenceClassification.from_pretrained(
                self.folder, num_labels=1
            )
            return {
                "model": model, "train_dataset": PREFERENCES,
                "eval_dataset": PREFERENCES,
            }  # fmt: skip

        self.compare(trl.RewardTrainer, trl.RewardConfig, make)

    def test_unpaired_preferences(self) -> None:
        def make() -> dict[str, Any]:
            judged = rows(
                prompt=lambda i: f"w{i}",
                completion=lambda i: f" w{i % 7} w9",
                label=lambda i: i % 2 == 0,
            )
            return {"model": self.model(), "train_dataset": judged}

        self.compare(trl.KTOTrainer, trl.KTOConfig, make)

    def test_policies_that_generate(self) -> None:
        def make() -> dict[str, Any]:
            def reward(completions: list[str], **_: Any) -> list[float]:
                return [float(sum(map(ord, text)) % 7) for text in completions]

            return {
                "model": self.model(), "reward_funcs": reward,
                "train_dataset": rows(prompt=lambda i: f"w{i} w8"),
            }  # fmt: skip

        self.compare(
            trl.GRPOTrainer, trl.GRPOConfig, make,
            num_generations=2, max_completion_length=4,
        )  # fmt: skip


class WrapTest(unittest.TestCase):
    def test_refuses_what_is_no_trainer(self) -> None:
        with self.assertRaisesRegex(TypeError, "wants a subclass of transformers"):
            castor.wrap(dict)
        self.assertIs(castor.wrap(castor.Trainer), castor.Trainer)

    def test_refuses_an_optimizer_of_the_trainers_own(self) -> None:
        class Own(transformers.Trainer):
            def create_optimizer(self, model: Any = None) -> Any:
                self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
                return self.optimizer

        with self.assertRaisesRegex(ValueError, "an optimizer of its own"):
            self.weighted(Own, bf16=False).train()

    def test_keeps_the_type_of_what_is_not_the_models(self) -> None:
        seen = []

        class Weighted(transformers.Trainer):
            def compute_loss(self, model: Any, inputs: Any, **_: Any) -> Any:
                weight = inputs.pop("weight")
                seen.append(weight.dtype)
                return model(**inputs).loss.float() * weight.mean()

        self.weighted(Weighted, bf16=True).train()
        self.assertEqual(set(seen), {torch.float32})
        self.assertIs(castor.wrap(transformers.Trainer), castor.Trainer)

    def weighted(self, trainer: Any, bf16: bool) -> Any:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        torch.manual_seed(1)
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**_SIZES))
        data = [
            {
                "input_ids": torch.arange(3, 9), "labels": torch.arange(3, 9),
                "weight": torch.tensor(1.5),
            }
            for _ in range(4)
        ]  # fmt: skip
        return castor.wrap(trainer)(
            model,
            transformers.TrainingArguments(
                output_dir=folder.name, use_cpu=True, bf16=bf16, max_steps=2,
                per_device_train_batch_size=2, remove_unused_columns=False,
                report_to=[], save_strategy="no", disable_tqdm=True,
            ),
            train_dataset=data,
            castor={"memory": {"device_memory": "8MiB"}},
        )  # fmt: skip

    def test_tells_of_a_class_in_the_wrong_order(self) -> None:
        class Mixed(castor.Trainer, trl.SFTTrainer):
            pass

        with tempfile.TemporaryDirectory() as folder:
            torch.manual_seed(1)
            model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**_SIZES))
            with self.assertRaisesRegex(ValueError, r"castor\.wrap\(SFTTrainer\)"):
                Mixed(
                    model,
                    trl.SFTConfig(output_dir=folder, use_cpu=True, bf16=False),
                    train_dataset=rows(text=lambda i: "w1 w2"),
                    processing_class=tokenizer(),
                    castor={"memory": {}},
                )
            with self.assertRaisesRegex(ValueError, "arguments by their names"):
                castor.Trainer(model, model)


if __name__ == "__main__":
    unittest.main()
