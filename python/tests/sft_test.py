"""`castor train` learns of records what TRL's SFTTrainer learns of them, by its own
collators: completions, the assistant's turns, and completions that share rows.

Both make one step over all records. AdamW's first step moves a parameter by
lr g / (|g| + eps); with lr = eps = 1 two gradients that lie d apart move it to
places that lie at most d apart. So parameters are compared as gradients are.
"""

from __future__ import annotations

import json
import os
import pathlib
import random
import shutil
import subprocess
import tempfile
import unittest
from typing import Any

import datasets
import safetensors.torch
import tokenizers
import torch
import transformers
import trl

BINARY = os.environ.get("CASTOR_BINARY")
TOLERANCE = 1e-5
LENGTH = 48
RECORDS = 23
_WORDS = ["[PAD]", "[EOS]", "[UNK]", "user", "assistant", *(f"w{i}" for i in range(59))]
_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] + ' ' }}"
    "{% if message['role'] == 'assistant' %}"
    "{% generation %}{{ message['content'] + '[EOS]' }}{% endgeneration %}"
    "{% else %}{{ message['content'] + '[EOS]' }}{% endif %}{% endfor %}"
)


def words(rng: random.Random, most: int) -> str:
    return " ".join(f"w{rng.randrange(59)}" for _ in range(rng.randint(1, most)))


def pair(rng: random.Random) -> dict[str, Any]:
    # Prompts end where a token does, and completions begin with a space.
    return {"prompt": words(rng, 12), "completion": " " + words(rng, 14)}


def conversation(rng: random.Random) -> dict[str, Any]:
    messages = []
    for _ in range(rng.randint(1, 2)):
        messages.append({"role": "user", "content": words(rng, 8)})
        messages.append({"role": "assistant", "content": words(rng, 8)})
    return {"messages": messages}


@unittest.skipUnless(BINARY, "CASTOR_BINARY names no program")
class SftTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        of_words = tokenizers.Tokenizer(
            tokenizers.models.WordLevel(
                {word: i for i, word in enumerate(_WORDS)}, unk_token="[UNK]"
            )
        )
        of_words.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
        self.tokenizer = transformers.PreTrainedTokenizerFast(
            tokenizer_object=of_words,
            pad_token="[PAD]", eos_token="[EOS]", unk_token="[UNK]",
            chat_template=_TEMPLATE,
        )  # fmt: skip
        torch.manual_seed(1)
        self.model = transformers.LlamaForCausalLM(
            transformers.LlamaConfig(
                vocab_size=len(_WORDS), hidden_size=32, intermediate_size=64,
                num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                max_position_embeddings=64, pad_token_id=0, bos_token_id=1,
                eos_token_id=1, initializer_range=0.2,
            )
        )  # fmt: skip
        self.model.save_pretrained(self.folder / "model")
        self.tokenizer.save_pretrained(self.folder / "model")

    def castor(self, *arguments: Any) -> None:
        done = subprocess.run(
            [BINARY, *map(str, arguments)], capture_output=True, text=True
        )
        self.assertEqual(done.returncode, 0, done.stderr)

    def train(self, batch: int, data: dict[str, Any]) -> dict[str, Any]:
        config = {
            "model": {"pretrained": "model"},
            "data": {"train": "records.jsonl", "sequence_length": LENGTH, **data},
            "steps": 1, "train_batch_size": batch,
            "checkpoint": {"dir": "out"},
            "optimizer": {
                "type": "AdamW",
                "params": {"lr": 1.0, "eps": 1.0, "weight_decay": 0.0},
            },
            "device": {"type": "host", "threads": 1},
        }  # fmt: skip
        (self.folder / "run.json").write_text(json.dumps(config))
        summary = self.folder / "summary.json"
        shutil.rmtree(self.folder / "out", ignore_errors=True)
        self.castor("train", self.folder / "run.json", "--summary", summary)
        return json.loads(summary.read_text())

    # The loss of a step over all records, and the parameters after it.
    def learned(
        self, records: list[Any], data: dict[str, Any]
    ) -> tuple[float, dict[str, torch.Tensor]]:
        lines = [json.dumps(record) + "\n" for record in records]
        (self.folder / "records.jsonl").write_text("".join(lines))
        batch = self.train(1, data)["steps_per_epoch"]
        loss = self.train(batch, data)["first_loss"]
        trained = self.folder / "trained"
        shutil.rmtree(trained, ignore_errors=True)
        self.castor("export", self.folder / "out", trained)
        return loss, safetensors.torch.load_file(trained / "model.safetensors")

    def expected(
        self, records: list[Any], **more: Any
    ) -> tuple[float, dict[str, torch.Tensor]]:
        arguments = trl.SFTConfig(
            output_dir=str(self.folder / "trl"), use_cpu=True, bf16=False,
            report_to=[], max_steps=1, per_device_train_batch_size=len(records),
            learning_rate=1.0, adam_epsilon=1.0, weight_decay=0.0,
            max_grad_norm=0.0, lr_scheduler_type="constant", save_strategy="no",
            logging_steps=1, disable_tqdm=True, max_length=LENGTH,
            gradient_checkpointing=False, **more,
        )  # fmt: skip
        model = transformers.AutoModelForCausalLM.from_pretrained(
            self.folder / "model"
        )
        trainer = trl.SFTTrainer(
            model=model, args=arguments, processing_class=self.tokenizer,
            train_dataset=datasets.Dataset.from_list(records),
        )  # fmt: skip
        trainer.train()
        return trainer.state.log_history[0]["loss"], trainer.model.state_dict()

    def compare(self, make: Any, data: list[dict[str, Any]], **more: Any) -> None:
        rng = random.Random(1)
        records = [make(rng) for _ in range(RECORDS)]
        expected_loss, expected = self.expected(records, **more)
        before = self.model.state_dict()
        for each in data:
            loss, values = self.learned(records, each)
            self.assertAlmostEqual(
                loss, expected_loss, delta=TOLERANCE * expected_loss, msg=str(each)
            )
            for name, value in values.items():
                torch.testing.assert_close(
                    value, expected[name], rtol=0, atol=TOLERANCE, msg=f"{name} {each}"
                )
                # Each learns by more than the tolerance.
                moved = (value - before[name]).abs().max().item()
                self.assertGreater(moved, 100 * TOLERANCE, name)

    def test_completions(self) -> None:
        # Padded to sequence_length, and as a batch by length.
        self.compare(pair, [{"shuffle": False}, {"shuffle": True}])

    def test_turns_of_the_assistant(self) -> None:
        self.compare(
            conversation,
            [{"shuffle": True}, {"packing": "rows"}],
            assistant_only_loss=True,
        )

    def test_completions_that_share_rows(self) -> None:
        self.compare(
            pair,
            [{"packing": "rows"}, {"packing": "rows", "shuffle": False}],
            packing=True,
        )


if __name__ == "__main__":
    unittest.main()
