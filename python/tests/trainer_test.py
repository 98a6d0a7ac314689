"""castor.Trainer beside transformers.Trainer, and what it refuses.

The tolerance is that of parity_test: the same operators, and updates that are
written differently.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest
from typing import Any
from unittest import mock

import castor
import torch
import transformers

from castor import _gpu
from castor._trainer_config import check_arguments, merged

from parity_test import TOLERANCE
from promises_test import bytes_of

MEMORY = {"memory": {"device_memory": "2MiB"}}


class Rows(torch.utils.data.Dataset):
    """Tokens with labels, of which each row counts another number."""

    def __init__(self, rows: int, seed: int = 0) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.ids = torch.randint(3, 40, (rows, 8), generator=generator)

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, row: int) -> dict[str, torch.Tensor]:
        labels = self.ids[row].clone()
        labels[: row % 5] = -100
        return {"input_ids": self.ids[row], "labels": labels}


def gpt2() -> transformers.PreTrainedModel:
    torch.manual_seed(0)
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            n_layer=2, n_embd=16, n_head=2, n_positions=16, vocab_size=40,
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
            bos_token_id=0, eos_token_id=1,
        )
    )


def t5() -> transformers.PreTrainedModel:
    torch.manual_seed(0)
    return transformers.T5ForConditionalGeneration(
        transformers.T5Config(
            d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2,
            vocab_size=40, dropout_rate=0.0, decoder_start_token_id=0,
            relative_attention_num_buckets=8,
        )
    )


class ForwardStep:
    """A loss of the program's own, over a trainer of either kind."""

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, **_: Any
    ) -> Any:
        labels = inputs.pop("labels")
        output = model(**inputs, decoder_input_ids=labels.clamp(min=0))
        loss = torch.nn.functional.cross_entropy(
            output.logits.flatten(0, 1).float(), labels.flatten()
        )
        # It reads a parameter, too.
        loss = loss + 1e-3 * model.lm_head.weight.square().mean()
        return (loss, output) if return_outputs else loss


class PlainForwardStep(ForwardStep, transformers.Trainer):
    loss_is_scaled_for_ga = False


class OurForwardStep(ForwardStep, castor.Trainer):
    loss_is_scaled_for_ga = False


class OurSeq2Seq(castor.Trainer, transformers.Seq2SeqTrainer):
    pass


class TrainerTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def arguments(self, kind: Any = None, **more: Any) -> Any:
        kind = kind or transformers.TrainingArguments
        keys = dict(
            output_dir=self.folder, use_cpu=True, report_to=[], save_strategy="no",
            disable_tqdm=True, logging_strategy="no",
            per_device_train_batch_size=2, per_device_eval_batch_size=4,
            gradient_accumulation_steps=3, num_train_epochs=2,
            learning_rate=1e-2, adam_epsilon=1e-4, weight_decay=0.1, warmup_steps=2,
        )
        return kind(**{**keys, **more})

    def trainer(
        self, kind: Any = None, model: Any = None, config: Any = MEMORY, **more: Any
    ) -> Any:
        kind = kind or castor.Trainer
        ours = {"castor": config} if issubclass(kind, castor.Trainer) else {}
        trainer = kind(
            model or gpt2(), self.arguments(**more), train_dataset=Rows(14),
            eval_dataset=Rows(6, seed=1), **ours,
        )
        trainer.remove_callback(transformers.PrinterCallback)
        return trainer

    def refuses(self, words: list[str], make: Any) -> None:
        with self.assertRaises(ValueError) as caught:
            make()
        message = str(caught.exception)
        self.assertTrue(message.startswith("castor.Trainer: "), message)
        self.assertNotIn("\n", message)
        for word in words:
            self.assertIn(word, message)


class Training(TrainerTest):
    def hold(self, plain: Any, ours: Any) -> None:
        for trainer in (plain, ours):
            # Each step's loss and both evaluations.
            trainer.train()
        logs = []
        for trainer in (plain, ours):
            logs.append(
                [
                    float(log[key])
                    for log in trainer.state.log_history
                    for key in ("loss", "grad_norm", "eval_loss", "learning_rate")
                    if key in log
                ]
            )
        self.assertEqual(len(logs[0]), 6 + 6 + 2 + 6)
        self.assertEqual(len(logs[0]), len(logs[1]))
        for index, (theirs, own) in enumerate(zip(*logs)):
            self.assertAlmostEqual(theirs, own, delta=TOLERANCE, msg=str(index))
        expected = plain.model.state_dict()
        for name, value in ours.engine.state_dict().items():
            error = (value - expected[name]).abs().max().item()
            self.assertLess(error, TOLERANCE, name)
        self.assertLessEqual(ours.engine.summary()["device_peak_bytes"], 2 << 20)

    def test_losses_of_a_causal_model(self) -> None:
        # 14 rows are 7 micro batches, so that an epoch's last step has 1 of 3.
        more = dict(logging_strategy="steps", logging_steps=1, eval_strategy="epoch")
        self.hold(
            self.trainer(transformers.Trainer, **more), self.trainer(**more)
        )

    def test_losses_of_an_overridden_loss(self) -> None:
        more = dict(logging_strategy="steps", logging_steps=1, eval_strategy="epoch")
        self.hold(
            self.trainer(PlainForwardStep, t5(), **more),
            self.trainer(OurForwardStep, t5(), **more),
        )

    def test_step_that_is_undone(self) -> None:
        def train(undo: int) -> bytes:
            trainer = self.trainer(max_steps=2)
            steps = trainer.engine._steps
            backward, calls = steps._go_backward, []

            def fails(*args: Any, **kwargs: Any) -> None:
                calls.append(None)
                if len(calls) == undo:
                    trainer.engine.abort()
                    raise castor.StepUndone("by the test")
                backward(*args, **kwargs)

            steps._go_backward = fails
            trainer.train()
            self.assertEqual(len(calls), 4 if undo == 0 else 6)
            return bytes_of(trainer.engine.state_dict()["transformer.wte.weight"])

        # Steps of 3 and 1 micro batches: 2 of the first are run again.
        with mock.patch.object(Rows, "__len__", lambda self: 8):
            self.assertEqual(train(undo=2), train(undo=0))

    def test_training_that_a_callback_stops_within_a_step(self) -> None:
        class Stops(transformers.TrainerCallback):
            def on_substep_end(self, *args: Any, **_: Any) -> None:
                args[2].should_training_stop = True

        trainer = self.trainer()
        trainer.add_callback(Stops())
        trainer.train()
        self.assertEqual(trainer.engine.global_steps, 0)
        self.assertIn("eval_loss", trainer.evaluate())
        trainer.pop_callback(Stops)
        trainer.train()
        self.assertEqual(trainer.engine.global_steps, 6)

    def test_a_skipped_step_leaves_the_schedule(self) -> None:
        """In fp16: transformers.Trainer does so with torch.amp.GradScaler."""
        rates: list[float] = []

        class Watches(transformers.TrainerCallback):
            def on_log(self, *args: Any, logs: dict[str, Any], **_: Any) -> None:
                if "learning_rate" in logs:
                    rates.append(logs["learning_rate"])

        trainer = self.trainer(
            fp16=True, max_steps=8, logging_strategy="steps", logging_steps=1,
            lr_scheduler_type="linear", warmup_steps=0,
            config={"fp16": {"initial_scale_power": 20, "hysteresis": 1}},
        )
        trainer.add_callback(Watches())
        trainer.train()
        summary = trainer.engine.summary()
        skipped = summary["skipped_steps"]
        self.assertGreater(skipped, 2)
        self.assertLess(skipped, 8)
        self.assertEqual(summary["loss_scale"], 2.0 ** (20 - skipped))
        scheduled = [trainer.args.learning_rate * (1 - i / 8) for i in range(9 - skipped)]
        self.assertEqual(len(rates), 8)
        for rate in rates:
            self.assertTrue(any(abs(rate - s) < 1e-12 for s in scheduled), rate)
        self.assertAlmostEqual(rates[-1], scheduled[-2], delta=1e-12)

    def test_model_init(self) -> None:
        trainer = castor.Trainer(
            model_init=gpt2, args=self.arguments(max_steps=1),
            train_dataset=Rows(14), castor=MEMORY,
        )
        trainer.train()
        self.assertEqual(trainer.engine.global_steps, 1)

    def test_bf16(self) -> None:
        trainer = self.trainer(bf16=True, max_steps=1)
        trainer.train()
        self.assertEqual(trainer.model.lm_head.weight.dtype, torch.bfloat16)


class Failing(castor.Trainer):
    """Has a loss that is no number in its third step."""

    def compute_loss(self, *args: Any, **more: Any) -> Any:
        loss = super().compute_loss(*args, **more)
        return loss * float("nan") if self.state.global_step == 2 else loss


class Resuming(TrainerTest):
    def test_what_was_trained_before_a_gradient_that_is_not_finite(self) -> None:
        def values(trainer: Any) -> list[bytes]:
            self.assertEqual(trainer.state.global_step, 6)
            return [bytes_of(v) for v in trainer.engine.state_dict().values()]

        whole = self.trainer()
        whole.train()
        expected = values(whole)
        more = dict(save_strategy="steps", save_steps=100)
        with self.assertRaisesRegex(castor.NonFiniteError, "is not finite"):
            self.trainer(Failing, **more).train()
        again = self.trainer(**more)
        again.train(resume_from_checkpoint=True)
        self.assertEqual(again.engine.summary()["skipped_steps"], 1)
        self.assertTrue(values(again) == expected)

    def test_bits_of_the_run_that_was_not_interrupted(self) -> None:
        def finish(trainer: Any, **more: Any) -> list[bytes]:
            # Dropout has to go on where it was, too.
            trainer.model.transformer.drop.p = 0.3
            trainer.train(**more)
            self.assertEqual(trainer.engine.global_steps, 6)
            return [bytes_of(v) for v in trainer.engine.state_dict().values()]

        more = dict(save_strategy="steps", save_steps=2)
        expected = finish(self.trainer(**more))
        for step in (2, 4):  # within an epoch, and after one
            path = os.path.join(self.folder, f"checkpoint-{step}")
            again = self.trainer(config={}, **more)
            actual = finish(again, resume_from_checkpoint=path)
            self.assertTrue(actual == expected, step)

    def test_best_model_is_loaded(self) -> None:
        trainer = self.trainer(
            save_strategy="steps", save_steps=1, eval_strategy="steps", eval_steps=1,
            load_best_model_at_end=True, learning_rate=1.0,
        )
        trainer.train()
        losses = [h["eval_loss"] for h in trainer.state.log_history if "eval_loss" in h]
        self.assertGreater(losses[-1], min(losses))
        self.assertAlmostEqual(trainer.evaluate()["eval_loss"], min(losses), places=6)


class Evaluating(TrainerTest):
    def test_evaluate_and_predict_without_training(self) -> None:
        plain = self.trainer(transformers.Trainer)
        ours = self.trainer()
        self.assertAlmostEqual(
            plain.evaluate()["eval_loss"], ours.evaluate()["eval_loss"],
            delta=TOLERANCE,
        )
        theirs, own = (t.predict(Rows(5, seed=2)) for t in (plain, ours))
        self.assertTrue((theirs.label_ids == own.label_ids).all())
        self.assertLess(abs(theirs.predictions - own.predictions).max(), TOLERANCE)
        held = ours.engine.claimed_bytes
        ours.predict(Rows(60, seed=2))
        self.assertEqual(ours.engine.claimed_bytes, held)

    def test_generation_of_a_seq2seq_trainer(self) -> None:
        arguments = self.arguments(
            transformers.Seq2SeqTrainingArguments, predict_with_generate=True,
            generation_max_length=6,
        )
        kinds = (transformers.Seq2SeqTrainer, {}), (OurSeq2Seq, {"castor": MEMORY})
        theirs, own = (
            kind(t5(), arguments, **more).predict(Rows(3)) for kind, more in kinds
        )
        self.assertTrue((theirs.predictions == own.predictions).all())

    def test_save_model_reads_back(self) -> None:
        trainer = self.trainer(
            max_steps=2, save_strategy="steps", save_steps=1, save_only_model=True
        )
        trainer.train()
        trainer.save_model()
        expected = trainer.engine.state_dict()
        last = os.path.join(self.folder, "checkpoint-2")
        for folder in (self.folder, last):
            read = transformers.GPT2LMHeadModel.from_pretrained(folder)
            for name, value in read.state_dict().items():
                self.assertTrue(torch.equal(value, expected[name]), name)
        self.assertIn("training_args.bin", os.listdir(self.folder))


class Configuration(TrainerTest):
    def test_contradictions_name_both(self) -> None:
        params = "optimizer.params."
        cases: list[tuple[dict[str, Any], list[str]]] = [
            (
                {"gradient_accumulation_steps": 4},
                ["gradient_accumulation_steps is 4", "is 3"],
            ),
            (
                {"train_micro_batch_size_per_gpu": 1},
                [
                    "train_micro_batch_size_per_gpu is 1",
                    "per_device_train_batch_size is 2",
                ],
            ),
            ({"train_batch_size": 7}, ["train_batch_size is 7", "is 6"]),
            (
                {"gradient_clipping": 0.5},
                ["gradient_clipping is 0.5", "max_grad_norm is 1.0"],
            ),
            ({"bf16": {"enabled": True}}, ["bf16.enabled is true", "bf16 is false"]),
            ({"fp16": {"enabled": True}}, ["fp16.enabled is true", "fp16 is false"]),
            ({"seed": 3}, ["seed is 3", "seed is 42"]),
            ({"optimizer": {"type": "Adam"}}, ["optimizer.type", "Adam", "optim "]),
            (
                {"optimizer": {"params": {"lr": 1.0}}},
                [params + "lr is 1.0", "learning_rate is 0.01"],
            ),
            (
                {"optimizer": {"params": {"betas": [0.9, 0.95]}}},
                [params + "betas is [0.9, 0.95]", "adam_beta1, adam_beta2"],
            ),
            (
                {"optimizer": {"params": {"eps": 1e-8}}},
                [params + "eps", "adam_epsilon"],
            ),
            (
                {"optimizer": {"params": {"weight_decay": 0.0}}},
                [params + "weight_decay is 0.0", "weight_decay is 0.1"],
            ),
            (
                {"optimizer": {"params": {"max_grad_norm": 2.0}}},
                [params + "max_grad_norm is 2.0", "is 1.0"],
            ),
            ({"optimizer": {"no_decay": ["*.bias"]}}, ["optimizer.no_decay"]),
        ]
        for config, words in cases:
            with self.subTest(str(config)):
                self.refuses(words, lambda c=config: self.trainer(config=c))

    def test_schedules_are_compared(self) -> None:
        # Linear, warmed up in 2 of 6 steps.
        scheduler = {
            "type": "WarmupDecayLR",
            "params": {
                "warmup_num_steps": 2, "warmup_type": "linear", "total_num_steps": 6,
            },
        }
        trainer = self.trainer(config={**MEMORY, "scheduler": scheduler})
        trainer.train()
        self.assertEqual(trainer.engine.global_steps, 6)
        scheduler["params"]["warmup_num_steps"] = 3
        trainer = self.trainer(config={**MEMORY, "scheduler": scheduler})
        self.refuses(
            ["scheduler", "0.00333333 at step 2", "linear", "0.005"], trainer.train
        )
        trainer = self.trainer(config={**MEMORY, "steps": 7})
        self.refuses(["steps is 7", "num_train_epochs is 6"], trainer.train)

    def test_where_the_configuration_comes_from(self) -> None:
        with mock.patch.dict(os.environ):
            os.environ.pop("CASTOR_CONFIG", None)
            with self.assertRaisesRegex(ValueError, "castor.Trainer: no configuration"):
                self.trainer(config=None)
            path = os.path.join(self.folder, "run.json")
            with open(path, "w", encoding="utf-8") as file:
                file.write('{"seed": 42, // as TrainingArguments\n "memory": {}}')
            os.environ["CASTOR_CONFIG"] = path
            self.trainer(config=None)
            with castor.ZeroInit({"seed": 1}):
                self.refuses(["seed is 1"], lambda: self.trainer(config=None))
                self.trainer()  # its own comes first
            with open(path, "w", encoding="utf-8") as file:
                file.write('{"seed": 42, "seed": 42}')
            self.refuses(["config", "seed"], lambda: self.trainer(config=None))

    def test_arguments_of_others(self) -> None:
        cases: list[tuple[dict[str, Any], list[str]]] = [
            ({"optim": "rmsprop"}, ["optim=rmsprop"]),
            ({"bf16_full_eval": True}, ["bf16_full_eval"]),
            ({"fp16_full_eval": True}, ["fp16_full_eval"]),
            ({"auto_find_batch_size": True}, ["auto_find_batch_size"]),
        ]
        for more, words in cases:
            with self.subTest(str(more)):
                self.refuses(words, lambda m=more: self.trainer(**m))
        for key in ("deepspeed", "fsdp", "torch_compile"):
            arguments = self.arguments()
            setattr(arguments, key, True)  # some of them want what is not here
            self.refuses(
                [key], lambda: castor.Trainer(gpt2(), arguments, castor=MEMORY)
            )
        sgd = torch.optim.SGD(gpt2().parameters())
        self.refuses(
            ["optimizers="],
            lambda: castor.Trainer(
                gpt2(), self.arguments(), castor=MEMORY, optimizers=(sgd, None)
            ),
        )

        class Own(castor.Trainer):
            def create_optimizer(self, model: Any = None) -> Any:
                return None

        self.refuses(["Own overrides create_optimizer"], lambda: self.trainer(Own))
        self.refuses(
            ["resume_from_checkpoint", "has no folder castor"],
            lambda: self.trainer().train(resume_from_checkpoint=self.folder),
        )


class OnAGpu(TrainerTest):
    """What can be seen of it where there is none."""

    def on_gpu(self, device: str = "cuda:0", gpus: int = 1, **more: Any) -> Any:
        arguments = self.arguments(**more)
        vars(arguments).update(_setup_devices=torch.device(device), _n_gpu=gpus)
        return arguments

    def test_allocator_comes_before_arguments_use_cuda(self) -> None:
        class Taken(Exception):
            pass

        with mock.patch("torch.cuda.is_available", return_value=True), mock.patch(
            "castor._arguments.take_allocator", side_effect=Taken
        ):
            with self.assertRaises(Taken):
                self.arguments(use_cpu=False)
            self.assertEqual(self.arguments().device.type, "cpu")

    def test_device_is_the_arguments(self) -> None:
        config, _ = merged(MEMORY, self.arguments())
        self.assertEqual(config["device"], {"type": "host"})
        with mock.patch("castor._trainer_config.has_allocator", return_value=True):
            check_arguments(self.on_gpu())
        for given in (MEMORY, {**MEMORY, "device": {"type": "cuda"}}):
            config, _ = merged(given, self.on_gpu())
            self.assertEqual(config["device"], {"type": "cuda"})
        self.refuses(
            ['device.type is "host"', 'the device is "cuda"'],
            lambda: merged({**MEMORY, "device": {"type": "host"}}, self.on_gpu()),
        )
        self.refuses(
            ['device.type is "cuda"', 'the device is "host"'],
            lambda: merged({**MEMORY, "device": {"type": "cuda"}}, self.arguments()),
        )

    def test_what_is_refused(self) -> None:
        for arguments, words in (
            (self.on_gpu(), ["uses CUDA already", "before TrainingArguments"]),
            (self.on_gpu(gpus=2), ["2 GPUs", "torchrun", "CUDA_VISIBLE_DEVICES=0"]),
            (self.on_gpu("mps"), ["on mps", "use_cpu=True"]),
        ):
            self.refuses(words, lambda a=arguments: check_arguments(a))

    def test_gpu_is_the_ranks(self) -> None:
        for rank, gpus, expected in ((0, 1, 0), (3, 4, 3), (3, 1, 0), (-1, 1, 0)):
            with mock.patch("torch.cuda.device_count", return_value=gpus), mock.patch(
                "castor._gpu.shim.local_rank", return_value=rank
            ):
                self.assertEqual(_gpu._gpu_of_rank(), expected)
        with mock.patch("torch.cuda.device_count", return_value=2), mock.patch(
            "castor._gpu.shim.local_rank", return_value=-1
        ), self.assertRaisesRegex(ValueError, "this machine's 2 GPUs"):
            _gpu._gpu_of_rank()


class Import(unittest.TestCase):
    def test_castor_without_transformers(self) -> None:
        program = (
            "import sys; sys.modules['transformers'] = None\n"
            "import castor, torch\n"
            "castor.initialize(torch.nn.Linear(2, 1), {}).close()\n"
            "try:\n    castor.Trainer\n"
            "except ImportError as error:\n    assert 'transformers 5' in str(error)\n"
            "else:\n    raise SystemExit(1)\n"
        )
        done = subprocess.run([sys.executable, "-c", program])
        self.assertEqual(done.returncode, 0)


if __name__ == "__main__":
    unittest.main()
