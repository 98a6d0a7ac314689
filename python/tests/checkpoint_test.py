"""Checkpoints: resumed runs, castor train and back, and what is refused."""

from __future__ import annotations

import json
import os
import random
import subprocess
import tempfile
import unittest
import warnings
from pathlib import Path
from typing import Any

import castor
import torch
import transformers
from torch import nn

from models import MAKERS, vary
from promises_test import bytes_of, config_of
from small import Net, X, bits, engine_of, one_step


class Noisy(nn.Module):
    """Draws random numbers, and has buffers that change."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.net = nn.Sequential(
            nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 1)
        )
        self.register_buffer("sums", torch.zeros(2, dtype=torch.bfloat16))
        self.register_buffer("passing", torch.zeros(2), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.sums += 0.25
        return self.net(x).square().mean()


class Resume(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def test_goes_on_to_the_same_bits_at_any_budget(self) -> None:
        for name in ("gpt2-dropout", "t5", "odd", "vit"):
            with self.subTest(name):
                self.resume(name)

    def resume(self, name: str) -> None:
        rng = random.Random(name)
        case = MAKERS[name](rng, 6)
        micro_batches = rng.choice([1, 2])
        batches = [
            case.batches[i : i + micro_batches]
            for i in range(0, len(case.batches), micro_batches)
        ]

        def make(budget: int | None) -> castor.Engine:
            torch.manual_seed(1)
            model = vary(random.Random(name), case.make()).train()
            return castor.initialize(model, config_of(micro_batches, False, budget))

        def run(engine: castor.Engine, steps: list[Any]) -> list[bytes]:
            losses = [bytes_of(engine.train_batch(step)) for step in steps]
            return losses + bits(engine)

        with make(None) as engine:
            run(engine, batches[:1])
            engine.save_checkpoint(self.folder / name)
            expected = run(engine, batches[1:])
            needed = engine.summary()["device_peak_bytes"]
        with make(needed) as engine:
            # Elsewhere before, and in another state of the generator.
            run(engine, batches[2:])
            torch.manual_seed(77)
            engine.load_checkpoint(self.folder / name)
            self.assertEqual(engine.global_steps, 1)
            self.assertEqual(run(engine, batches[1:]), expected)

    def test_buffers_generator_and_client_state(self) -> None:
        with engine_of(Noisy()) as engine:
            one_step(engine, X)
            path = engine.save_checkpoint(self.folder, {"epoch": [1, "two"]})
            self.assertEqual(path, str(self.folder / "step-00000001.castor"))
            expected = [one_step(engine, X) for _ in range(3)], bits(engine)
            torch.manual_seed(9)
            one_step(engine, X)
            for where in (path, self.folder):
                self.assertEqual(
                    engine.load_checkpoint(where), (path, {"epoch": [1, "two"]})
                )
                got = [one_step(engine, X) for _ in range(3)], bits(engine)
                self.assertEqual(got, expected)

    def test_another_model_or_other_settings(self) -> None:
        with engine_of(Net()) as engine:
            one_step(engine, X)
            path = engine.save_checkpoint(self.folder)
        config = config_of(1, False, None)
        config["optimizer"] = {"type": "Lamb", "params": {"lr": 0.5}}
        for model, config, words in (
            (Net(9), config_of(1, False, None), "of another model.*64 elements, not"),
            (Noisy(), config_of(1, False, None), "of another model"),
            (Net(), config, 'optimizer.type: "AdamW" then, "Lamb" now.*changed=True'),
            (Net(), config_of(2, False, None), "gradient_accumulation_steps"),
            (Net(), config_of(1, True, None), "bf16.enabled"),
        ):
            with self.subTest(words), castor.initialize(model, config) as engine:
                before = bits(engine)
                state = torch.get_rng_state()
                with self.assertRaisesRegex(castor.CheckpointError, words) as caught:
                    engine.load_checkpoint(path)
                self.assertNotIn("\n", str(caught.exception))
                self.assertEqual(bits(engine), before)
                self.assertTrue(torch.equal(torch.get_rng_state(), state))
                self.assertEqual(engine.global_steps, 0)
        with castor.initialize(Net(), config_of(2, False, None)) as engine:
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                engine.load_checkpoint(path, changed=True)
            self.assertIn("gradient_accumulation_steps", str(told[0].message))
            self.assertEqual(engine.global_steps, 1)

    def test_another_runs_checkpoints_move_aside(self) -> None:
        for earlier in (1, 2, 3):
            with engine_of(Net()) as engine, warnings.catch_warnings(
                record=True
            ) as told:
                warnings.simplefilter("always")
                one_step(engine, X)
                engine.save_checkpoint(self.folder / "run", keep_aside=1)
            words = [str(warning.message) for warning in told]
            moved = [w for w in words if "moved to" in w]
            removed = [w for w in words if "removed" in w]
            self.assertEqual(len(moved), earlier > 1, words)
            self.assertEqual(len(removed), earlier > 2, words)
        aside = sorted(path.name for path in self.folder.glob("run.*"))
        self.assertEqual(aside, ["run.2"])
        with engine_of(Net()) as engine:
            one_step(engine, X)
            with self.assertRaisesRegex(ValueError, "keep_aside=0: at least 1"):
                engine.save_checkpoint(self.folder / "run", keep_aside=0)

    def test_another_models_buffers(self) -> None:
        class More(Noisy):
            def __init__(self) -> None:
                super().__init__()
                self.register_buffer("more", torch.zeros(1))

        with engine_of(Noisy()) as engine:
            one_step(engine, X)
            engine.save_checkpoint(self.folder)
        with engine_of(More()) as engine:
            before = bits(engine)
            with self.assertRaisesRegex(castor.CheckpointError, "buffer more is mis"):
                engine.load_checkpoint(self.folder)
            self.assertEqual(bits(engine), before)

    def test_missing_torn_and_unwritable(self) -> None:
        with engine_of(Net()) as engine:
            one_step(engine, X)
            good = engine.save_checkpoint(self.folder / "a")
            one_step(engine, X)
            newer = engine.save_checkpoint(self.folder / "a")
            one_step(engine, X)
            before = bits(engine)
            data = Path(newer).read_bytes()
            Path(newer).write_bytes(data[: len(data) // 2])
            for path, words in (
                (self.folder / "none", "none: No such file"),
                (self.folder / "none.castor", "none.castor"),
                (newer, "step-00000002"),
            ):
                with self.assertRaisesRegex(castor.CheckpointError, words):
                    engine.load_checkpoint(path)
            Path(self.folder / "file").write_text("x")
            for folder in (self.folder / "file", "/dev/full/x", "/proc/x"):
                with self.assertRaises(castor.CheckpointError):
                    engine.save_checkpoint(folder)
            with self.assertRaisesRegex(castor.CheckpointError, "JSON"):
                engine.save_checkpoint(self.folder / "b", {"a": object()})
            with self.assertRaisesRegex(ValueError, "keep"):
                engine.save_checkpoint(self.folder / "b", keep=0)
            self.assertEqual(bits(engine), before)
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                self.assertEqual(engine.load_checkpoint(self.folder / "a")[0], good)
            self.assertIn("step-00000002", str(told[0].message))

    def test_only_between_steps(self) -> None:
        with engine_of(Net(), micro_batches=2) as engine:
            one_step(engine, X)
            one_step(engine, X)
            engine.save_checkpoint(self.folder)
            one_step(engine, X)
            for call in (engine.save_checkpoint, engine.load_checkpoint):
                with self.assertRaisesRegex(castor.CheckpointError, "within a step"):
                    call(self.folder)
            one_step(engine, X)
            engine.save_checkpoint(self.folder)

    def test_keep_and_two_runs(self) -> None:
        with engine_of(Net()) as engine, engine_of(Net()) as other:
            for _ in range(3):
                one_step(engine, X)
                engine.save_checkpoint(self.folder, keep=2)
            names = {p.name for p in self.folder.glob("*.castor")}
            self.assertEqual(names, {"step-00000002.castor", "step-00000003.castor"})
            with self.assertRaisesRegex(castor.CheckpointError, "in use by"):
                other.save_checkpoint(self.folder)

    def test_a_graph_of_before_is_not_walked(self) -> None:
        with engine_of(Net()) as engine:
            one_step(engine, X)
            engine.save_checkpoint(self.folder)
            weight = engine.model.a.weight
            version = weight._version
            engine.load_checkpoint(self.folder)
            self.assertGreater(weight._version, version)


CASTOR = os.environ.get("CASTOR_BINARY", "")


# One model of each family that castor train knows, too; all with 16 positions
# and tokens that are bytes.
FAMILIES: dict[str, Any] = {
    "gpt2": lambda: transformers.GPT2Config(
        vocab_size=256, n_layer=2, n_head=2, n_embd=16, n_positions=16,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    ),
    "llama": lambda: transformers.LlamaConfig(
        vocab_size=256, hidden_size=16, intermediate_size=32, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=16,
        tie_word_embeddings=False,
    ),
    "qwen3": lambda: transformers.Qwen3Config(
        vocab_size=256, hidden_size=16, intermediate_size=32, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, head_dim=8,
        max_position_embeddings=16, tie_word_embeddings=True,
    ),
    "opt": lambda: transformers.OPTConfig(
        vocab_size=256, hidden_size=16, ffn_dim=32, num_hidden_layers=2,
        num_attention_heads=2, max_position_embeddings=16, word_embed_proj_dim=16,
        dropout=0.0, attention_dropout=0.0,
    ),
}


@unittest.skipUnless(CASTOR, "CASTOR_BINARY names no castor (see run.sh)")
class WithCastorTrain(unittest.TestCase):
    """A checkpoint moves from castor train to PyTorch and back."""

    def begin(self, family: str) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.config = FAMILIES[family]()
        self.config.architectures = [type(self.model()).__name__]
        self.config.save_pretrained(self.folder / "model")
        self.shared = {
            "gradient_clipping": 0.5,
            "optimizer": {"type": "AdamW", "params": {"lr": 1e-2}},
        }
        (self.folder / "text.txt").write_bytes(bytes(range(256)) * 4)
        (self.folder / "train.json").write_text(
            json.dumps(
                {
                    "model": {"from_config": "model"},
                    "data": {"train": "text.txt", "sequence_length": 16},
                    "steps": 3,
                    "checkpoint": {"dir": "out"},
                    "train_batch_size": 2,
                    **self.shared,
                }
            )
        )

    def model(self) -> nn.Module:
        torch.manual_seed(5)
        return transformers.AutoModelForCausalLM.from_config(self.config)

    def castor(self, *arguments: str, fails: bool = False) -> str:
        done = subprocess.run(
            [CASTOR, *arguments], cwd=self.folder, text=True, capture_output=True
        )
        self.assertEqual(done.returncode != 0, fails, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def engine(self) -> castor.Engine:
        return castor.initialize(self.model(), self.shared)

    def same_as_export(self, engine: castor.Engine, checkpoint: str) -> None:
        self.castor("export", checkpoint, "exported")
        model = transformers.AutoModelForCausalLM.from_pretrained(
            self.folder / "exported"
        )
        own = engine.state_dict()
        for name, parameter in model.named_parameters():
            self.assertTrue(torch.equal(own[name], parameter.detach()), name)

    def test_there_and_back(self) -> None:
        for family in FAMILIES:
            with self.subTest(family):
                self.begin(family)
                self.there_and_back()

    def there_and_back(self) -> None:
        self.castor("train", "train.json")
        with self.engine() as engine, self.engine() as other:
            path, state = engine.load_checkpoint(self.folder / "out")
            self.assertIsNone(state)
            self.assertEqual(engine.global_steps, 3)
            self.same_as_export(engine, "out")
            ids = torch.arange(32).reshape(2, 16)
            batch = {"input_ids": ids, "labels": ids}
            engine.train_batch([batch])
            mine = engine.save_checkpoint(self.folder / "mine")

            # Back, where nothing is left to do but to save it.
            arguments = ["train", "train.json", "--resume", mine]
            arguments += ["--set", "steps=4", "--set", "checkpoint.dir=back"]
            told = self.castor(*arguments, fails=True)
            self.assertIn("--resume-changed", told)
            self.castor(*arguments, "--resume-changed")
            self.same_as_export(engine, "back")
            told = self.castor("export", mine, "not", fails=True)
            self.assertIn("does not say what the model is", told)

            # The optimizer's states have come along, too.
            other.load_checkpoint(self.folder / "back")
            expected = engine.train_batch([batch])
            self.assertEqual(bytes_of(other.train_batch([batch])), bytes_of(expected))
            self.assertEqual(bits(other), bits(engine))
            self.castor(*arguments[:-3], "steps=6", "--resume-changed")


if __name__ == "__main__":
    unittest.main()
