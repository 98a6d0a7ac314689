"""TrainingArguments' options under castor.Trainer: each gives what transformers'
Trainer gives, or is refused in one line. docs/trainer-options.md has the result.

`python options_test.py --write` writes that page.
"""

from __future__ import annotations

import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

import castor
import transformers

from parity_test import TOLERANCE
from trainer_test import MEMORY, Rows, gpt2

PAGE = Path(__file__).resolve().parents[2] / "docs" / "trainer-options.md"
EVAL = {"eval_strategy": "steps", "eval_steps": 1}
SAVE = {"save_strategy": "steps", "save_steps": 1}
BEST = {**EVAL, **SAVE, "load_best_model_at_end": True}

# What each row of the page gives to TrainingArguments.
OPTIONS: list[dict[str, Any]] = [
    {"num_train_epochs": 0.6, "max_steps": -1},
    {"gradient_accumulation_steps": 4, "num_train_epochs": 1, "max_steps": -1},
    {"average_tokens_across_devices": False, "gradient_accumulation_steps": 2},
    {"weight_decay": 0.5},
    {"max_grad_norm": 0.0},
    {"max_grad_norm": 0.05},
    {"adam_beta1": 0.8, "adam_beta2": 0.9},
    {"warmup_steps": 2},
    {"warmup_steps": 0.5},
    {"lr_scheduler_type": "cosine"},
    {"lr_scheduler_type": "cosine_with_restarts"},
    {"lr_scheduler_type": "polynomial"},
    {"lr_scheduler_type": "constant"},
    {"lr_scheduler_type": "constant_with_warmup", "warmup_steps": 2},
    {"lr_scheduler_type": "inverse_sqrt", "warmup_steps": 2},
    {
        "lr_scheduler_type": "cosine_with_min_lr",
        "lr_scheduler_kwargs": {"min_lr": 1e-3},
    },
    {
        "lr_scheduler_type": "warmup_stable_decay",
        "lr_scheduler_kwargs": {"num_decay_steps": 2},
    },
    {
        "lr_scheduler_type": "reduce_lr_on_plateau", **EVAL,
        "metric_for_best_model": "loss",
    },
    {"optim": "adamw_torch_fused"},
    {"optim": "sgd"},
    {"optim": "adamw_bnb_8bit"},
    {"optim": "adamw_torch", "optim_args": "amsgrad=True"},
    {"label_smoothing_factor": 0.1},
    {"gradient_checkpointing": True},
    {
        "gradient_checkpointing": True,
        "gradient_checkpointing_kwargs": {"use_reentrant": True},
    },
    {"train_sampling_strategy": "group_by_length"},
    {"dataloader_drop_last": True, "per_device_train_batch_size": 4},
    {"dataloader_num_workers": 1},
    {"dataloader_pin_memory": False},
    {"remove_unused_columns": False},
    {"accelerator_config": {"split_batches": True}},
    {"eval_strategy": "epoch", "num_train_epochs": 0.6, "max_steps": -1},
    {**EVAL, "eval_on_start": True},
    {**EVAL, "eval_accumulation_steps": 1},
    {**EVAL, "prediction_loss_only": True},
    {**SAVE, "save_total_limit": 1},
    {**SAVE, "save_only_model": True},
    BEST,
    {**BEST, "save_strategy": "best", "metric_for_best_model": "loss"},
    {**BEST, "save_only_model": True},
    {"logging_steps": 2, "logging_first_step": True},
    {"logging_nan_inf_filter": False},
    {"include_num_input_tokens_seen": True},
    {"torch_empty_cache_steps": 1},
    {"ddp_find_unused_parameters": True},
    {"torch_compile": True},
    {"auto_find_batch_size": True},
    {"fsdp": True},
    {"bf16_full_eval": True},
    {"fp16_full_eval": True},
    {"full_determinism": True},  # it stays so
]

HEAD = """# TrainingArguments under castor.Trainer

Made by `python/tests/options_test.py`, which trains a small GPT-2 by each, with transformers' Trainer
and with [castor.Trainer](pytorch.md#castortrainer): *equal* says that losses, norms, learning rates
and evaluations that are logged are the same, and parameters at the end, within the roundings of an
update in fp32. What is refused is so in this line, before anything is trained. `bf16` and `fp16` train
with parameters in 16 bits, where Trainer has autocast, and so are not among these.

| TrainingArguments | |
|---|---|
"""
_TIMES = ("runtime", "per_second", "flos", "mem_", "preparation_time")


def _text(options: dict[str, Any]) -> str:
    return ", ".join(f"`{name}={value!r}`" for name, value in options.items())


def _trained(kind: Any, options: dict[str, Any]) -> tuple[list[Any], Any]:
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            **{
                "output_dir": folder, "use_cpu": True, "report_to": [],
                "save_strategy": "no", "disable_tqdm": True, "logging_steps": 1,
                "per_device_train_batch_size": 2, "max_steps": 4,
                "learning_rate": 1e-2, "adam_epsilon": 1e-4, **options,
            }
        )
        ours = {"castor": MEMORY} if issubclass(kind, castor.Trainer) else {}
        trainer = kind(
            gpt2(), arguments, train_dataset=Rows(14), eval_dataset=Rows(6, seed=1),
            **ours,
        )
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
        # As it can be read afterwards, whoever has trained.
        return trainer.state.log_history, trainer.model.state_dict()


def _entries(logs: list[Any]) -> list[tuple[Any, ...]]:
    return [
        (log["step"], key, value)
        for log in logs
        for key, value in sorted(log.items())
        if not any(time in key for time in _TIMES)
    ]


def result_of(options: dict[str, Any]) -> str:
    """What the page says of these options."""
    try:
        logs, state = _trained(castor.Trainer, options)
    except ValueError as error:
        refusal = str(error)
        assert refusal.startswith("castor.Trainer: ") and "\n" not in refusal, refusal
        return "refused: " + refusal.removeprefix("castor.Trainer: ")
    expected_logs, expected = _trained(transformers.Trainer, options)
    ours, theirs = _entries(logs), _entries(expected_logs)
    assert [e[:2] for e in ours] == [e[:2] for e in theirs], (ours, theirs)
    for (step, key, value), (_, _, other) in zip(ours, theirs):
        assert abs(float(value) - float(other)) < TOLERANCE, (step, key, value, other)
    for name, value in expected.items():
        error = (state[name] - value).abs().max().item()
        assert error < TOLERANCE, (name, error)
    return "equal"


class Options(unittest.TestCase):
    def test_page_has_what_they_give(self) -> None:
        rows = PAGE.read_text(encoding="utf-8").removeprefix(HEAD).splitlines()
        self.assertEqual(len(rows), len(OPTIONS))
        for options, row in zip(OPTIONS, rows):
            with self.subTest(_text(options)):
                self.assertEqual(f"| {_text(options)} | {result_of(options)} |", row)


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        page = HEAD
        for each in OPTIONS:
            page += f"| {_text(each)} | {result_of(each)} |\n"
        PAGE.write_text(page, encoding="utf-8")
    else:
        unittest.main()
