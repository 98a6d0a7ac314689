"""Castor's configuration and TrainingArguments: one must not contradict the
other, and what the configuration lacks comes from the arguments."""

from __future__ import annotations

import dataclasses
import json
import os
from typing import Any

from castor._library import shim
from castor._zero_init import Config, text_of

# The names of AdamW among TrainingArguments' `optim`.
_ADAMW = ("adamw_torch", "adamw_torch_fused")


def _refuse(what: str, do: str) -> None:
    raise ValueError(f"castor.Trainer: {what}; {do}")


def check_arguments(args: Any) -> None:
    """Refuses arguments that another memory manager or another optimizer would
    serve.

    Args:
        args: transformers.TrainingArguments.
    """
    optim = getattr(args.optim, "value", args.optim)
    if optim not in _ADAMW or args.optim_args:
        _refuse(
            f"TrainingArguments has optim={optim}"
            + (f" with optim_args={args.optim_args}" if args.optim_args else ""),
            "Castor updates parameters itself: with optim=adamw_torch, or, "
            "where optim is left out, with LAMB if its configuration says so",
        )
    if args.fp16 or getattr(args, "fp16_full_eval", False):
        _refuse("TrainingArguments asks for fp16", "train in bf16 or fp32")
    if getattr(args, "bf16_full_eval", False):
        _refuse(
            "TrainingArguments has bf16_full_eval",
            "leave it out: evaluations compute in the type of training",
        )
    for key in ("deepspeed", "fsdp"):
        if getattr(args, key, None):
            _refuse(
                f"TrainingArguments has {key}",
                "leave it out, since Castor manages the memory",
            )
    if getattr(args, "torch_compile", False):
        _refuse(
            "TrainingArguments has torch_compile",
            "leave it out, and compile parts of the model by module.compile()",
        )
    if getattr(args, "auto_find_batch_size", False):
        _refuse(
            "TrainingArguments has auto_find_batch_size",
            "leave it out: castor.Refused says what a batch takes",
        )
    known = args.world_size  # this joins them, which may set the other
    started = int(os.environ.get("WORLD_SIZE") or 1)
    if started != known:
        _refuse(
            f"this process is one of {started}, and TrainingArguments knows of {known}",
            "give it use_cpu=True: then transformers joins the processes over gloo",
        )
    if args.device.type != "cpu" or args.n_gpu > 1:
        _refuse(
            f"TrainingArguments puts the model on {args.device}",
            "give it use_cpu=True: Castor's PyTorch engine computes on the CPU",
        )


def _optimizer_type(optimizer: Any, args: Any) -> str:
    """What TrainingArguments says of the optimizer's type: an `optim` that is
    the default says nothing, where the configuration has LAMB."""
    defaults = {field.name: field.default for field in dataclasses.fields(args)}
    lamb = isinstance(optimizer, dict) and optimizer.get("type") == "Lamb"
    return "Lamb" if lamb and args.optim == defaults["optim"] else "AdamW"


def _entries(
    args: Any, optimizer_type: str
) -> list[tuple[tuple[str, ...], str, Any]]:
    """Keys of the configuration with what TrainingArguments says of them."""
    micro = args.per_device_train_batch_size
    whole = micro * args.gradient_accumulation_steps * args.world_size
    optimizer = ("optimizer", "params")
    return [
        (("seed",), "seed", args.seed),
        (
            ("gradient_accumulation_steps",),
            "gradient_accumulation_steps",
            args.gradient_accumulation_steps,
        ),
        (
            ("train_micro_batch_size_per_gpu",),
            "per_device_train_batch_size",
            micro,
        ),
        (
            ("train_batch_size",),
            "per_device_train_batch_size x gradient_accumulation_steps x processes",
            whole,
        ),
        (("gradient_clipping",), "max_grad_norm", args.max_grad_norm or 0.0),
        (("bf16", "enabled"), "bf16", bool(args.bf16)),
        (("optimizer", "type"), "optim", optimizer_type),
        ((*optimizer, "lr"), "learning_rate", args.learning_rate),
        (
            (*optimizer, "betas"),
            "adam_beta1, adam_beta2",
            [args.adam_beta1, args.adam_beta2],
        ),
        ((*optimizer, "eps"), "adam_epsilon", args.adam_epsilon),
        ((*optimizer, "weight_decay"), "weight_decay", args.weight_decay),
    ]


def merged(config: Config | None, args: Any) -> dict[str, Any]:
    """The configuration with what it lacks from TrainingArguments.

    Raises:
        ValueError: a key contradicts an argument; both are named. Or the
            configuration is no JSON object.
    """
    try:
        whole = json.loads(shim.plain_config(text_of(config, "castor.Trainer")))
    except RuntimeError as error:
        raise ValueError(f"castor.Trainer: {str(error).splitlines()[0]}") from None
    result: dict[str, Any] = whole
    fp16 = result.get("fp16")
    if isinstance(fp16, dict) and fp16.get("enabled"):
        _refuse("fp16.enabled in Castor's configuration", "train in bf16 or fp32")
    optimizer = result.get("optimizer") or {}
    if isinstance(optimizer, dict):
        params = optimizer.get("params") or {}
        if isinstance(params, dict) and params.get("max_grad_norm") is not None:
            clipping = params["max_grad_norm"]
            if clipping != (args.max_grad_norm or 0.0):
                _contradiction(
                    "optimizer.params.max_grad_norm", clipping,
                    "max_grad_norm", args.max_grad_norm,
                )
        if optimizer.get("no_decay") is not None:
            _refuse(
                "optimizer.no_decay in Castor's configuration",
                "leave it out: castor.Trainer asks get_decay_parameter_names, as "
                "Trainer does",
            )
    for path, argument, wanted in _entries(args, _optimizer_type(optimizer, args)):
        table = result
        for key in path[:-1]:
            if table.get(key) is None:
                table[key] = {}
            if not isinstance(table[key], dict):
                break  # the core says what is wrong with it
            table = table[key]
        else:
            given = table.get(path[-1])
            if given is None:
                table[path[-1]] = wanted
            elif given != wanted:
                _contradiction(".".join(path), given, argument, wanted)
    return result


def _contradiction(key: str, given: Any, argument: str, wanted: Any) -> None:
    _refuse(
        f"{key} is {json.dumps(given)} in Castor's configuration, and {argument} "
        f"is {json.dumps(wanted)} in TrainingArguments",
        f"make them equal, or leave {key} out",
    )


def check_schedule(
    config: dict[str, Any], args: Any, run: Any, rates: Any, steps: int
) -> None:
    """Refuses a configuration whose steps or schedule are not the arguments'.

    Args:
        run: has `scheduled_rate(step)`.
        rates: gives the learning rate of a step, from 1; None: it cannot tell.
        steps: how many there will be.
    """
    if config.get("steps") not in (None, steps):
        _contradiction("steps", config["steps"], "max_steps or num_train_epochs", steps)
    if config.get("scheduler") is None:
        return
    kind = getattr(args.lr_scheduler_type, "value", args.lr_scheduler_type)
    if rates is None:
        _refuse(
            f"scheduler in Castor's configuration cannot be compared with "
            f"lr_scheduler_type={kind} in TrainingArguments",
            "leave scheduler out",
        )
    some = {*range(1, min(steps, 100) + 1), *range(1, steps + 1, max(1, steps // 900))}
    for step in sorted(some):
        ours, theirs = run.scheduled_rate(step), rates(step)
        if abs(ours - theirs) > 1e-6 * max(abs(ours), abs(theirs)):
            _refuse(
                f"scheduler in Castor's configuration has a learning rate of "
                f"{ours:g} at step {step}, and lr_scheduler_type={kind} with "
                f"warmup_steps={args.warmup_steps} in TrainingArguments has "
                f"{theirs:g}",
                "make them equal, or leave scheduler out",
            )
