"""Castor's configuration and TrainingArguments: one must not contradict the
other, and what the configuration lacks comes from the arguments."""

from __future__ import annotations

import dataclasses
import json
import os
import warnings
from typing import Any

from castor._gpu import has_allocator
from castor._library import shim
from castor._refused import each_line
from castor._zero_init import Config, account_of, text_of

# Castor's types by TrainingArguments' `optim`.
_OPTIMIZERS = {
    "adamw_torch": "AdamW",
    "adamw_torch_fused": "AdamW",
    "adamw_8bit": "AdamW8bit",
    "lion_32bit": "Lion",
    "lion_8bit": "Lion8bit",
    "sgd": "SGD",
    "adafactor": "Adafactor",
}
# What the configuration may say where `optim` is left out.
_OTHER_OPTIMIZERS = (
    "Lamb", "AdamW8bit", "AdamW16bit", "Lion", "Lion8bit", "SGD", "Adafactor",
)
# TrainingArguments have numbers for Adam. These are the ones that other types take
# too, as under transformers.
_ADAMS_NUMBERS = {
    "Lion": ("betas",), "Lion8bit": ("betas",), "SGD": (), "Adafactor": (),
}


def refuse(what: str, do: str) -> None:
    """Raises ValueError: what castor.Trainer cannot do, and what to do instead."""
    raise ValueError(f"castor.Trainer: {what}; {do}")


def check_arguments(args: Any) -> None:
    """Refuses arguments that another memory manager or another optimizer would
    serve.

    Args:
        args: transformers.TrainingArguments.
    """
    optim = getattr(args.optim, "value", args.optim)
    if optim not in _OPTIMIZERS or args.optim_args:
        refuse(
            f"TrainingArguments has optim={optim}"
            + (f" with optim_args={args.optim_args}" if args.optim_args else ""),
            f"Castor updates parameters itself: with optim={', '.join(_OPTIMIZERS)}, "
            "or, where optim is left out, with the type of its configuration",
        )
    for key in ("fp16_full_eval", "bf16_full_eval"):
        if getattr(args, key, False):
            refuse(
                f"TrainingArguments has {key}",
                "leave it out: evaluations compute in the type of training",
            )
    if getattr(args, "fsdp", None):
        refuse(
            "TrainingArguments has fsdp",
            "leave it out, since Castor manages the memory",
        )
    if getattr(args, "torch_compile", False):
        refuse(
            "TrainingArguments has torch_compile",
            "leave it out, and compile parts of the model by module.compile()",
        )
    if getattr(args, "auto_find_batch_size", False):
        refuse(
            "TrainingArguments has auto_find_batch_size",
            "leave it out: castor.Refused says what a batch takes",
        )
    known = args.world_size  # this joins them, which may set the other
    started = int(os.environ.get("WORLD_SIZE") or 1)
    if started != known:
        refuse(
            f"this process is one of {started}, and TrainingArguments knows of {known}",
            "start them with torchrun"
            if on_gpu(args)
            else "give it use_cpu=True: then transformers joins the processes over "
            "gloo",
        )
    if not on_gpu(args):
        if args.device.type != "cpu":
            refuse(
                f"TrainingArguments puts the model on {args.device}",
                "give it use_cpu=True: Castor knows GPUs of CUDA alone",
            )
    elif args.n_gpu > 1:
        refuse(
            f"this process sees {args.n_gpu} GPUs, and a process trains on one",
            "start a process for each with torchrun, or show it one, by "
            "CUDA_VISIBLE_DEVICES=0",
        )
    elif not has_allocator():
        refuse(
            "PyTorch uses CUDA already, with an allocator of its own",
            "import castor.Trainer before TrainingArguments is made and before "
            "anything uses CUDA, or give it use_cpu=True",
        )


def on_gpu(args: Any) -> bool:
    """Whether TrainingArguments puts the model on a GPU of CUDA."""
    return bool(args.device.type == "cuda")


def _optimizer_type(optimizer: Any, args: Any) -> str:
    """What TrainingArguments says of the optimizer's type: an `optim` that is
    the default says nothing, where the configuration has another one."""
    defaults = {field.name: field.default for field in dataclasses.fields(args)}
    given = optimizer.get("type") if isinstance(optimizer, dict) else None
    if given in _OTHER_OPTIMIZERS and args.optim == defaults["optim"]:
        return str(given)
    return _OPTIMIZERS[getattr(args.optim, "value", args.optim)]


def _adafactors(
    args: Any, optimizer_type: str
) -> list[tuple[tuple[str, ...], str, Any]]:
    """What transformers.Trainer gives its Adafactor beside learning_rate. The
    configuration may say how parameters scale it where `optim` is left out."""
    if optimizer_type != "Adafactor":
        return []
    path = ("optimizer", "params")
    entries: list[tuple[tuple[str, ...], str, Any]] = [
        ((*path, "relative_step"), "relative_step (of the rate, learning_rate)", False)
    ]
    if getattr(args.optim, "value", args.optim) == "adafactor":
        entries.append(
            ((*path, "scale_parameter"), "scale_parameter of optim=adafactor", False)
        )
    return entries


def _entries(
    args: Any, optimizer_type: str
) -> list[tuple[tuple[str, ...], str, Any]]:
    """Keys of the configuration with what TrainingArguments says of them."""
    micro = args.per_device_train_batch_size
    whole = micro * args.gradient_accumulation_steps * args.world_size
    optimizer = ("optimizer", "params")
    numbers: list[tuple[tuple[str, ...], str, Any]] = [
        (
            (*optimizer, "betas"),
            "adam_beta1, adam_beta2",
            [args.adam_beta1, args.adam_beta2],
        ),
        ((*optimizer, "eps"), "adam_epsilon", args.adam_epsilon),
    ]
    known = _ADAMS_NUMBERS.get(optimizer_type, ("betas", "eps"))
    return [
        (("device", "type"), "the device", "cuda" if on_gpu(args) else "host"),
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
        (("fp16", "enabled"), "fp16", bool(args.fp16)),
        (("optimizer", "type"), "optim", optimizer_type),
        ((*optimizer, "lr"), "learning_rate", args.learning_rate),
        *(entry for entry in numbers if entry[0][-1] in known),
        ((*optimizer, "weight_decay"), "weight_decay", args.weight_decay),
        *_adafactors(args, optimizer_type),
    ]


# transformers.Trainer scales its loss by torch.amp.GradScaler, which has these
# values by itself.
_GRAD_SCALER = {"enabled": True, "hysteresis": 1, "loss_scale_window": 2000}


@dataclasses.dataclass(frozen=True)
class DeepSpeedParts:
    """The parts of a configuration of DeepSpeed's that are not for the engine
    alone.

    Attributes:
        scheduler: its schedule, which takes the place of TrainingArguments'; None:
            it has none.
        has_optimizer: whether its optimizer is used, for which all parameters
            decay.
        autos: the paths of keys that are "auto".
        defaults: the paths of keys that have DeepSpeed's default.
    """

    scheduler: dict[str, Any] | None
    has_optimizer: bool
    autos: list[str]
    defaults: list[str]


def merged(
    config: Config | None, args: Any
) -> tuple[dict[str, Any], DeepSpeedParts | None]:
    """The configuration with what it lacks from TrainingArguments.

    One of DeepSpeed's is filled in as transformers does it: TrainingArguments say
    what "auto" is, and a key that is absent from a section that is there has
    DeepSpeed's default.

    Raises:
        ValueError: a key contradicts an argument; both are named. Or the
            configuration is no JSON object.
    """
    text = text_of(config, "castor.Trainer")
    try:
        whole = json.loads(shim.plain_config(text))
    except RuntimeError as error:
        raise ValueError(each_line(error, "castor.Trainer")) from None
    result: dict[str, Any] = whole
    account = account_of(text)
    autos = account.get("autos", [])
    for note in account.get("notes", []):
        if note.split(" ")[0] not in [*autos, "device"]:  # the arguments say those
            warnings.warn(f"castor: {note}", stacklevel=4)
    for auto in autos:
        _remove(result, auto.split("."))
    if args.fp16 and result.get("fp16") is None:
        result["fp16"] = dict(_GRAD_SCALER)
    optimizer = result.get("optimizer") or {}
    clipping = _at(result, "optimizer.params.max_grad_norm")
    if clipping is not None and clipping != (args.max_grad_norm or 0.0):
        _contradiction(
            "optimizer.params.max_grad_norm", clipping,
            "max_grad_norm", args.max_grad_norm,
        )
    if _at(result, "optimizer.no_decay") is not None:
        refuse(
            "optimizer.no_decay in Castor's configuration",
            "leave it out: castor.Trainer asks get_decay_parameter_names, as "
            "Trainer does",
        )
    entries = _entries(args, _optimizer_type(optimizer, args))
    parts = None
    if "autos" in account:
        parts = DeepSpeedParts(
            scheduler=result.pop("scheduler", None),
            has_optimizer=bool(optimizer),
            autos=autos,
            defaults=account["defaults"],
        )
        entries = _of_deepspeed(entries, result, parts)
    for path, argument, wanted in entries:
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
    if _logs_norms_without_clipping(result, args):
        result["on_nonfinite_undo"] = True  # then updates wait for the norm
    return result, parts


def _logs_norms_without_clipping(config: dict[str, Any], args: Any) -> bool:
    """Trainer logs grad_norm also where it does not clip."""
    strategy = getattr(args.logging_strategy, "value", args.logging_strategy)
    return (
        strategy != "no"
        and not config.get("gradient_clipping")
        and not args.fp16
        and config.get("on_nonfinite_undo") is None
    )


def _remove(table: dict[str, Any], path: list[str]) -> None:
    if len(path) == 1:
        table.pop(path[0], None)
    elif isinstance(table.get(path[0]), dict):
        _remove(table[path[0]], path[1:])


def _of_deepspeed(
    entries: list[tuple[tuple[str, ...], str, Any]],
    config: dict[str, Any],
    parts: DeepSpeedParts,
) -> list[tuple[tuple[str, ...], str, Any]]:
    """The entries without those for which DeepSpeed does not ask
    TrainingArguments, of which a warning tells where they say something else."""
    autos, defaults = parts.autos, parts.defaults
    if (
        config.get("gradient_clipping") is None
        and "gradient_clipping" not in autos
        and not _at(config, "optimizer.params.max_grad_norm")
    ):
        config["gradient_clipping"] = 0.0
        defaults = [*defaults, "gradient_clipping"]
    asked = []
    for path, argument, wanted in entries:
        name = ".".join(path)
        given = _at(config, name)
        if name == "optimizer.type" and given is not None:
            continue  # it says so, whatever the argument
        if name in defaults and name not in autos:
            if given != wanted:
                warnings.warn(
                    f"castor: {name} is not in DeepSpeed's configuration: it is "
                    f"{json.dumps(given)}, as under DeepSpeed, and not "
                    f"{argument}={json.dumps(wanted)}",
                    stacklevel=5,
                )
            continue
        asked.append((path, argument, wanted))
    return asked


def _at(config: Any, name: str) -> Any:
    """The value at a path with dots; None: there is none."""
    for key in name.split("."):
        config = config.get(key) if isinstance(config, dict) else None
    return config


def schedule_of(parts: DeepSpeedParts, args: Any, steps: int) -> list[float]:
    """The learning rates of steps 1 to `steps` + 1 by DeepSpeed's schedule, whose
    "auto" TrainingArguments say.

    Args:
        parts: with a scheduler.
        steps: how many there will be.

    Raises:
        ValueError: it contradicts an argument, or is wrong.
    """
    scheduler = parts.scheduler or {}
    params = dict(scheduler.get("params") or {})
    # transformers fills them in so.
    expected = {
        "warmup_max_lr": ("learning_rate", args.learning_rate),
        "warmup_num_steps": ("warmup_steps", max(1, args.get_warmup_steps(steps))),
        "total_num_steps": ("the number of steps", steps),
    }
    for key, (argument, wanted) in expected.items():
        path = f"scheduler.params.{key}"
        if path in parts.autos:
            params[key] = wanted
        elif path not in parts.defaults and params.get(key, wanted) != wanted:
            _contradiction(path, params[key], argument, wanted)
    whole = {
        "optimizer": {"params": {"lr": args.learning_rate}},
        "steps": steps,
        "scheduler": {**scheduler, "params": params},
    }
    try:
        rates: list[float] = shim.config_rates(json.dumps(whole), 1, steps + 1)
    except RuntimeError as error:
        raise ValueError(each_line(error, "castor.Trainer")) from None
    return rates


def _contradiction(key: str, given: Any, argument: str, wanted: Any) -> None:
    refuse(
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
        refuse(
            f"scheduler in Castor's configuration cannot be compared with "
            f"lr_scheduler_type={kind} in TrainingArguments",
            "leave scheduler out",
        )
    some = {*range(1, min(steps, 100) + 1), *range(1, steps + 1, max(1, steps // 900))}
    for step in sorted(some):
        ours, theirs = run.scheduled_rate(step), rates(step)
        if abs(ours - theirs) > 1e-6 * max(abs(ours), abs(theirs)):
            refuse(
                f"scheduler in Castor's configuration has a learning rate of "
                f"{ours:g} at step {step}, and lr_scheduler_type={kind} with "
                f"warmup_steps={args.warmup_steps} in TrainingArguments has "
                f"{theirs:g}",
                "make them equal, or leave scheduler out",
            )
