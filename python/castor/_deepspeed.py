"""DeepSpeed's calls, with Castor's engine behind them."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

import torch
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, RandomSampler, Sampler

from castor._engine import Engine, make_engine
from castor._library import shim
from castor._zero_init import Config, tell_of_deepspeed, text_of

_WHO = "castor.deepspeed_initialize"


def _refuse(what: str, do: str) -> NoReturn:
    raise ValueError(f"{_WHO}: {what}; {do}")


class DeepSpeedOptimizer(torch.optim.Optimizer):
    """What a script and its schedule see of the update: groups with learning rates.
    `engine.step` is its step."""

    is_the_engines = True

    def __init__(
        self, groups: list[dict[str, Any]], factors: list[float], rate: float
    ) -> None:
        super().__init__(groups, {"lr": rate})
        self._factors = factors
        self._shown: list[Any] = []
        self.show(rate)

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        raise RuntimeError("castor: optimizer.step(): call engine.step()")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Does nothing: backward leaves no gradients."""

    @property
    def rate(self) -> float:
        """The learning rate of which each group's is a fixed multiple."""
        rates = [float(group["lr"]) for group in self.param_groups]
        found = [
            each / factor for each, factor in zip(rates, self._factors) if factor > 0
        ]
        rate = found[0] if found else 0.0
        for each, factor in zip(rates, self._factors):
            if abs(each - rate * factor) > 1e-6 * rate * factor:
                _refuse(
                    f"a group of parameters has learning rate {each:g} where "
                    f"{rate * factor:g} would stand to the others as at first",
                    "let schedules scale all groups' rates alike",
                )
        return rate

    def show(self, rate: float) -> None:
        """Has the groups show the rates that follow from it."""
        for group, factor in zip(self.param_groups, self._factors):
            group["lr"] = rate * factor
        self._shown = [group["lr"] for group in self.param_groups]

    @property
    def was_set(self) -> bool:
        """Whether the script has given groups other rates than `show` did."""
        return [group["lr"] for group in self.param_groups] != self._shown


class ConfigSchedule:
    """The configuration's schedule, as a script sees it; the engine keeps to it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def get_last_lr(self) -> list[float]:
        """The rate of the next update."""
        return [self._engine.learning_rate]

    get_lr = get_last_lr

    def step(self, *_: Any) -> None:
        """Does nothing: the engine counts its steps."""

    def state_dict(self) -> dict[str, Any]:
        """Empty: the engine's checkpoint has the step."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes what `state_dict` gives."""


class DeepSpeedEngine(Engine):
    """`Engine` with the calls of DeepSpeed's that scripts make. Those that Engine
    has as properties are methods here, as there."""

    optimizer: DeepSpeedOptimizer
    lr_scheduler: Any
    _micro_batch_size = 1
    _own_rates = False  # the script's optimizer or schedule says the rate
    _has_schedule = False  # the configuration's

    @property
    def module(self) -> nn.Module:
        """The model."""
        return self._model

    @property
    def device(self) -> torch.device:
        """Where inputs go."""
        gpu = self._managed.gpu
        return torch.device("cpu") if gpu is None else torch.device("cuda")

    @property
    def global_rank(self) -> int:
        """As `rank`."""
        return self.rank

    @property
    def local_rank(self) -> int:
        """Which of this machine's ranks it is, as its launcher says."""
        return int(os.environ.get("LOCAL_RANK", self.rank))

    def parameters(self, recurse: bool = True) -> Iterable[nn.Parameter]:
        """The model's."""
        return self._model.parameters(recurse)

    def named_parameters(self, *args: Any, **kwargs: Any) -> Any:
        """The model's."""
        return self._model.named_parameters(*args, **kwargs)

    def gradient_accumulation_steps(self) -> int:  # type: ignore[override]
        """How many micro batches make a step."""
        return self._steps.micro_batches

    def train_micro_batch_size_per_gpu(self) -> int:
        """The configuration's, or 1."""
        return self._micro_batch_size

    def train_batch_size(self) -> int:
        """Samples of a step, of all ranks."""
        micro_batches = self._steps.micro_batches * self.world_size
        return self._micro_batch_size * micro_batches

    def is_gradient_accumulation_boundary(self) -> bool:
        """Whether the micro batch that is under way is a step's last."""
        return self._steps.is_last_micro_batch

    def get_lr(self) -> list[float]:
        """The learning rate of the next update, for each group of parameters."""
        if not self._own_rates:
            self._show_rate()
        return [float(group["lr"]) for group in self.optimizer.param_groups]

    def get_global_grad_norm(self) -> float | None:
        """As `gradient_norm`."""
        return self.gradient_norm

    def backward(  # type: ignore[override]
        self, loss: torch.Tensor, scale_wrt_gas: bool = True, **other: Any
    ) -> torch.Tensor:
        """As `Engine.backward`; `scale_wrt_gas`: whether the loss is divided by the
        number of micro batches."""
        if other:
            raise TypeError(f"castor: backward has no {', '.join(other)}")
        super().backward(loss, None if scale_wrt_gas else 1.0)
        return loss

    def step(  # type: ignore[override]
        self, lr_kwargs: Mapping[str, Any] | None = None
    ) -> bool:
        """As `Engine.step`; a schedule that the script gave takes a step with each
        update. Rates that the script writes into the optimizer's groups are those of
        the update, and stay unless the configuration has a schedule."""
        own = self._own_rates or self.optimizer.was_set
        ended = super().step(self.optimizer.rate if own else None)
        if ended:
            self.lr_scheduler.step(**(lr_kwargs or {}))
            if self._has_schedule:
                self.optimizer.show(self.learning_rate)
        if not self._own_rates:
            self._show_rate()
        return ended

    def _show_rate(self) -> None:
        if not self.optimizer.was_set:
            self.optimizer.show(self.learning_rate)

    def zero_grad(self) -> None:
        """Does nothing: backward leaves no gradients."""

    def save_checkpoint(  # type: ignore[override]
        self,
        save_dir: str | os.PathLike[str],
        tag: str | None = None,
        client_state: Any = None,
        **other: Any,
    ) -> bool:
        """As `Engine.save_checkpoint`, into a folder of the tag's name, if one is
        given."""
        other.pop("save_latest", None)
        other.pop("exclude_frozen_parameters", None)
        super().save_checkpoint(_with_tag(save_dir, tag), client_state, **other)
        return True

    def load_checkpoint(  # type: ignore[override]
        self, load_dir: str | os.PathLike[str], tag: str | None = None, **other: Any
    ) -> tuple[str, Any]:
        """As `Engine.load_checkpoint`: optimizer states and the step come with the
        parameters."""
        for name in ("load_optimizer_states", "load_lr_scheduler_states"):
            if other.pop(name, True) is False:
                raise ValueError(
                    f"castor: load_checkpoint: {name}=False; a checkpoint is taken "
                    "whole"
                )
        other.pop("load_module_strict", None)
        return super().load_checkpoint(_with_tag(load_dir, tag), **other)


def _with_tag(directory: str | os.PathLike[str], tag: str | None) -> str:
    return os.path.join(directory, str(tag)) if tag is not None else os.fspath(directory)


# The learning rate and the decay of each parameter are in its groups.
_KNOWN = {
    torch.optim.AdamW: "AdamW",
    torch.optim.Adam: "Adam",
}


def _section_of(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """"optimizer" of a configuration that updates as an optimizer of PyTorch's."""
    kind = _KNOWN.get(type(optimizer))
    if kind is None:
        _refuse(
            f"optimizer is a {type(optimizer).__name__}",
            f"give {' or '.join(c.__name__ for c in _KNOWN)}, or none and "
            '"optimizer" in the configuration',
        )
    settings = []
    for group in optimizer.param_groups:
        if group.get("amsgrad") or group.get("maximize"):
            _refuse("optimizer has amsgrad or maximize", "leave it out")
        settings.append((list(group["betas"]), group["eps"]))
    if any(each != settings[0] for each in settings):
        _refuse(
            "groups of optimizer have other betas or eps", "give all of them the same"
        )
    betas, eps = settings[0]
    return {"type": kind, "params": {"betas": betas, "eps": eps}}


def _rate_of(group: Mapping[str, Any]) -> float | None:
    """A group's learning rate before any schedule; None: it has none."""
    rate = group.get("initial_lr", group.get("lr"))
    return None if rate is None else float(rate)


def _with_rates(
    config: dict[str, Any], groups: list[dict[str, Any]], model: nn.Module
) -> tuple[dict[str, Any], list[float]]:
    """A configuration with the learning rates that groups of parameters have, and
    what each group's rate is a multiple of the configuration's by."""
    optimizer = config.get("optimizer") or {}
    params = optimizer.get("params") or {} if isinstance(optimizer, dict) else None
    given = [rate for group in groups if (rate := _rate_of(group)) is not None]
    plain = [1.0] * len(groups)
    if not given or not isinstance(params, dict):
        return config, plain  # the engine says what is wrong
    base = params.get("lr")
    if base is None:
        if len(given) < len(groups):
            _refuse(
                f"a group of model_parameters has lr {given[0]:g}, and another none",
                "give the others one in the configuration's optimizer.params.lr",
            )
        base = next((rate for rate in given if rate > 0), 0.0)
    elif not isinstance(base, (int, float)):
        return config, plain
    names = {id(p): name for name, p in model.named_parameters()}
    rates = [base if (rate := _rate_of(group)) is None else rate for group in groups]
    others = []
    for group, rate in zip(groups, rates):
        if rate == base:
            continue
        trained = [p for p in group["params"] if p.requires_grad]
        if not all(id(p) in names for p in trained):
            _refuse("a group has a parameter that is not the model's", "leave it out")
        if trained:
            others.append({"params": [names[id(p)] for p in trained], "lr": rate})
    if others and optimizer.get("groups"):
        _refuse(
            "groups of parameters have learning rates, and the configuration has "
            "optimizer.groups",
            "leave one of them out",
        )
    section = {**optimizer, "params": {**params, "lr": base}}
    if others:
        section["groups"] = others
    factors = [rate / base if base else 1.0 for rate in rates]
    return {**config, "optimizer": section}, factors


def _groups_of(parameters: Any, model: nn.Module) -> list[dict[str, Any]]:
    """Groups of PyTorch's optimizers, of parameters or of such groups."""
    if parameters is None:
        parameters = [p for p in model.parameters() if p.requires_grad]
    given = list(parameters)
    if not given:
        _refuse("model_parameters is empty", "give model.parameters(), or leave it out")
    if not isinstance(given[0], Mapping):
        given = [{"params": given}]
    groups = []
    for group in given:
        extra = set(group) - {"params", "weight_decay", "lr", "name"}
        if extra:
            _refuse(
                f"a group of model_parameters has {', '.join(sorted(extra))}",
                "groups may have lr and weight_decay",
            )
        groups.append({**group, "params": list(group["params"])})
    return groups


def _config_in(args: Any) -> Any:
    """The path that DeepSpeed's arguments have; None: there is none."""
    names = ("deepspeed_config", "deepscale_config")
    return next((path for n in names if (path := getattr(args, n, None))), None)


def _plain_of(text: str) -> dict[str, Any] | None:
    """What Castor makes of a configuration; None: it cannot be read."""
    try:
        plain: dict[str, Any] = json.loads(shim.plain_config(text))
    except RuntimeError:
        return None  # the engine says all that is wrong
    return plain


def _take_drop_last(config: Any, model: nn.Module) -> tuple[Any, str, bool]:
    """The configuration for the engine, without "dataloader_drop_last", which is
    the loader's; its text; and what that key says."""
    text = text_of(config, _WHO, model)
    try:
        given = json.loads(text)
    except ValueError:
        return config, text, False  # DeepSpeed reads JSON without comments
    if not isinstance(given, dict) or "dataloader_drop_last" not in given:
        return config, text, False
    drops = given.pop("dataloader_drop_last")
    return given, text_of(given, _WHO, model), drops is True


def deepspeed_initialize(
    args: Any = None,
    model: nn.Module | None = None,
    optimizer: Any = None,
    model_parameters: Any = None,
    training_data: Any = None,
    lr_scheduler: Any = None,
    distributed_port: int | None = None,
    mpu: Any = None,
    dist_init_required: bool | None = None,
    collate_fn: Callable[..., Any] | None = None,
    config: Config | None = None,
    config_params: Config | None = None,
) -> tuple[DeepSpeedEngine, DeepSpeedOptimizer, DataLoader[Any] | None, Any]:
    """`initialize` with the arguments and the results of deepspeed.initialize, for
    scripts that unpack them.

    Args:
        args: may have `deepspeed_config`, or `deepscale_config`, a path.
        model: as for `initialize`.
        optimizer: torch.optim.AdamW or Adam over the model's parameters, or what
            makes one of them: it says betas, eps, and the learning rate and the decay
            of each group, in the place of the configuration's. A "scheduler" there
            is kept to.
        model_parameters: those that are trained, or groups of them with lr or
            weight_decay; all by default.
        training_data: a data set, for the third result.
        lr_scheduler: PyTorch's, over `optimizer`, or what makes one of the
            optimizer that it is given, where the configuration has no schedule.
        collate_fn: of the loader.
        config: DeepSpeed's or Castor's, as for `initialize`. `config_params` is
            its old name.

    `distributed_port` and `dist_init_required` mean nothing here.

    Returns:
        The engine; the optimizer, which has the groups; a loader of
        `training_data`, or None; the schedule.

    Raises:
        ValueError, Refused: as `initialize`; or one of them asks for what Castor
            does not have.
    """
    if model is None:
        _refuse("there is no model", "give model=...")
    if mpu is not None:
        _refuse("mpu divides the model", "leave it out: batches are divided over ranks")
    config = config if config is not None else config_params
    config = config if config is not None else _config_in(args)
    config, text, drops_last = _take_drop_last(config, model)
    plain = _plain_of(text)
    groups = _groups_of(model_parameters, model)
    if callable(optimizer) and not isinstance(optimizer, torch.optim.Optimizer):
        optimizer = optimizer(groups)
    whole: Any = config
    factors = [1.0] * len(groups)
    if plain is None:
        plain = {}
    elif optimizer is not None:
        groups = [dict(group) for group in optimizer.param_groups]
        section = {"optimizer": _section_of(optimizer)}
        plain, factors = _with_rates({**plain, **section}, groups, model)
        whole = plain
    else:
        with_rates, factors = _with_rates(plain, groups, model)
        if with_rates is not plain:
            tell_of_deepspeed(text)
            whole = plain = with_rates
    has_schedule = bool(plain.get("scheduler") or plain.get("lr_scheduler_type"))
    if has_schedule and lr_scheduler is not None:
        _refuse(
            "the configuration has a scheduler, and there is lr_scheduler, too; "
            "releases of DeepSpeed differ in which of them they take",
            "leave one of them out",
        )
    decays = {
        id(p): float(group["weight_decay"])
        for group in groups
        for p in group["params"]
        if group.get("weight_decay") is not None
    }
    _freeze_others(model, groups)
    engine = make_engine(
        DeepSpeedEngine, model, whole, weight_decay=lambda _, p: decays.get(id(p))
    )
    # By the configuration's schedule the engine keeps the rate itself.
    engine._own_rates = lr_scheduler is not None or (
        optimizer is not None and not has_schedule
    )
    engine._has_schedule = has_schedule
    loader_settings = {"collate_fn": collate_fn, "drop_last": drops_last}
    try:
        return _complete(
            engine, plain, groups, factors, optimizer, training_data, lr_scheduler,
            loader_settings,
        )
    except BaseException:
        engine.close(keep_values=True)
        raise


def _freeze_others(model: nn.Module, groups: list[dict[str, Any]]) -> None:
    """DeepSpeed updates what it is given alone."""
    trained = {id(p) for group in groups for p in group["params"]}
    others = [
        (name, p)
        for name, p in model.named_parameters()
        if p.requires_grad and id(p) not in trained
    ]
    for _, parameter in others:
        parameter.requires_grad_(False)
    if others:
        warnings.warn(
            f"castor: {others[0][0]} and {len(others) - 1} other parameters are not "
            "among those that are to be trained: requires_grad of them is False now",
            stacklevel=3,
        )


def _complete(
    engine: DeepSpeedEngine,
    config: dict[str, Any],
    groups: list[dict[str, Any]],
    factors: list[float],
    optimizer: Any,
    training_data: Any,
    lr_scheduler: Any,
    loader_settings: dict[str, Any],
) -> tuple[DeepSpeedEngine, DeepSpeedOptimizer, DataLoader[Any] | None, Any]:
    engine._micro_batch_size = int(config.get("train_micro_batch_size_per_gpu") or 0)
    if not engine._micro_batch_size:
        batch = int(config.get("train_batch_size") or 0)
        micro_batches = engine._steps.micro_batches * engine.world_size
        engine._micro_batch_size = max(1, batch // micro_batches)
    for group in groups:
        group.pop("name", None)
    seen = [
        {"params": group["params"], "weight_decay": group.get("weight_decay", 0.0)}
        for group in groups
    ]
    engine.optimizer = DeepSpeedOptimizer(seen, factors, engine.learning_rate)
    if optimizer is not None:
        engine.optimizer.param_groups = optimizer.param_groups
        if not engine._own_rates:
            engine.optimizer.show(engine.learning_rate)
    # PyTorch's schedules look there whether steps are taken.
    engine.optimizer._opt_called = True  # type: ignore[attr-defined]
    if lr_scheduler is None:
        engine.lr_scheduler = ConfigSchedule(engine)
    elif hasattr(lr_scheduler, "step"):
        # It changes the groups of the optimizer that it was made of.
        engine.lr_scheduler = lr_scheduler
        theirs = getattr(lr_scheduler, "optimizer", optimizer)
        if theirs is None:
            _refuse("lr_scheduler has no optimizer", "give optimizer=..., too")
        engine.optimizer.param_groups = theirs.param_groups
        theirs.is_the_engines = True
        theirs._opt_called = True
    else:
        engine.lr_scheduler = lr_scheduler(engine.optimizer)
    loader = None
    if training_data is not None:
        sampler: Sampler[Any]
        if engine.world_size > 1:
            sampler = DistributedSampler(
                training_data, num_replicas=engine.world_size, rank=engine.rank
            )
        else:
            sampler = RandomSampler(training_data)
        loader = DataLoader(
            training_data,
            batch_size=engine._micro_batch_size,
            sampler=sampler,
            **loader_settings,
        )
    return engine, engine.optimizer, loader, engine.lr_scheduler
