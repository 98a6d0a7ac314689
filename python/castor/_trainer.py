"""transformers.Trainer with a model in managed memory."""

from __future__ import annotations

import copy
import functools
import inspect
import os
from typing import Any

import torch
from torch import nn

from castor._engine import Engine, initialize
from castor._inputs import copied
from castor._library import shim
from castor._refused import NonFiniteError
from castor._trainer_config import (
    check_arguments,
    check_schedule,
    merged,
    on_gpu,
    refuse,
    schedule_of,
)
from castor._zero_init import Config, active_config

try:
    import transformers
except ImportError as error:
    raise ImportError(
        "castor.Trainer needs transformers 5 and accelerate: "
        "pip install 'transformers[torch]>=5'"
    ) from error

from castor._arguments import (
    keep_deepspeed_out,
    take_deepspeed,
    take_gpu_in_time,
)
from castor._callback_gradients import CallbackGradients, wants_gradients

keep_deepspeed_out()
take_gpu_in_time()

# What of transformers.Trainer is overridden below and is not public.
_NEEDED = (
    "_prepare_for_training",
    "_move_model_to_device",
    "_get_grad_norm",
    "_maybe_log_save_evaluate",
)


# These lie in a folder of Trainer's checkpoint.
_FOLDER = "castor"
_SCHEDULE = "scheduler.pt"
_HOST = torch.device("cpu")


class _EngineOptimizer(torch.optim.Optimizer):
    """What a schedule and callbacks see: groups with learning rates. Its step is
    the engine's update."""

    is_the_engines = True

    def __init__(self, groups: list[dict[str, Any]], trainer: Trainer) -> None:
        super().__init__(groups, {"lr": trainer.args.learning_rate})
        self._trainer = trainer
        # Whether the latest step was undone, for accelerate, which
        # transformers.Trainer asks before it takes the schedule a step further.
        self.step_was_skipped = False

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        if closure is not None:
            refuse("optimizer.step with a closure", "call it without")
        rates = {group["lr"] for group in self.param_groups}
        if len(rates) > 1:
            refuse(
                f"the schedule gives groups of parameters {len(rates)} learning "
                "rates",
                "give all of them one",
            )
        run = self._trainer.engine._run
        before = run.skipped_steps
        self._trainer._update(float(rates.pop()))
        self.step_was_skipped = run.skipped_steps > before


class Trainer(transformers.Trainer):
    """transformers.Trainer whose model trains in managed memory.

    An existing script changes one import. The configuration has the keys of
    `initialize`; what it lacks (batch sizes, learning rate, clipping, bf16, ...)
    is taken from TrainingArguments, and a key that contradicts them is an error
    that names both. The schedule is TrainingArguments', and so is which
    parameters decay (`get_decay_parameter_names`).

    `compute_loss` runs within the engine, with the model itself, in training and
    in evaluation: it may compute its own loss and read parameters. What
    evaluations give is in host memory.

    The model is trained on the GPU where TrainingArguments would put it there; with
    use_cpu on the CPU. The class is to be imported before such arguments are made.

    On several ranks, as torchrun starts them, every rank makes one of these and
    calls the same methods; transformers gives each its share of the data.
    Rank 0 writes.

    The engine begins with the first `train`, `evaluate`, `predict` or
    `save_model`, and stays: `trainer.engine.close(keep_values=True)` makes the
    model a plain one again.

    Args:
        args: as transformers.Trainer's, and the others too; without an
            optimizer or a schedule of the program's own.
        castor: the configuration, a path or a mapping, Castor's or DeepSpeed's;
            otherwise TrainingArguments' deepspeed, that of the `ZeroInit` in
            which the model was made, or that is active, or the file that
            CASTOR_CONFIG names.

    Raises:
        ValueError: one of them asks for what the engine does not have, or the
            configuration contradicts the arguments.
    """

    _castor_given: Config | None = None  # by `wrap`

    def __init__(
        self,
        model: Any = None,
        args: Any = None,
        *more: Any,
        castor: Config | None = None,
        **named: Any,
    ) -> None:
        lacks = [name for name in _NEEDED if not hasattr(transformers.Trainer, name)]
        if lacks:
            raise ImportError(
                f"castor.Trainer: transformers {transformers.__version__} has no "
                f"{lacks[0]} in its Trainer; install transformers 5"
            )
        if args is None:
            args = transformers.TrainingArguments(output_dir="tmp_trainer")
        if not isinstance(args, transformers.TrainingArguments):
            refuse(f"args is a {type(args).__name__}", "give arguments by their names")
        if castor is None:
            castor = self._castor_given
        deepspeed = take_deepspeed(args)
        if deepspeed is not None:
            if castor is not None:
                refuse(
                    "both castor=... and TrainingArguments' deepspeed are given",
                    "leave one of them out",
                )
            castor = deepspeed
        if castor is None:
            castor = active_config(model)
        if castor is None:
            castor = os.environ.get("CASTOR_CONFIG") or None
        check_arguments(args)
        self._castor_config, self._deepspeed = merged(castor, args)
        self._engine: Engine | None = None
        self._callback_gradients: CallbackGradients | None = None
        self._evaluating = False
        self._gathered: dict[str, torch.Tensor] | None = None  # to be saved
        # By their names: a trainer between this one and transformers' may have
        # other places for them.
        if args.fp16:  # accelerate would scale the loss as well
            args = copy.copy(args)
            args.mixed_precision = "no"
        names = list(inspect.signature(transformers.Trainer.__init__).parameters)
        given = dict(zip(names[3:], more), **named)
        super().__init__(model=model, args=args, **given)
        if self.optimizer is not None or self.lr_scheduler is not None:
            refuse(
                "optimizers=... gives an optimizer or a schedule of the program's own",
                "leave it out: Castor updates parameters itself",
            )
        if self.optimizer_cls_and_kwargs is not None:
            refuse(
                "optimizer_cls_and_kwargs is given",
                "leave it out: Castor updates parameters itself",
            )
        if on_gpu(args) and args.world_size == 1:
            # Batches stay in host memory: the engine copies them into its own.
            self.accelerator.device_placement = False
        self._check_overrides()
        self._check_saving()

    def _check_overrides(self) -> None:
        """Refuses a class in which the engine's step, or a trainer's own, would be
        left out."""
        for name in ("create_optimizer", "training_step"):
            if getattr(type(self), name) is not getattr(Trainer, name):
                refuse(
                    f"{type(self).__name__} overrides {name}",
                    "override compute_loss or create_scheduler instead",
                )
        order = type(self).__mro__
        for above in order[order.index(Trainer) + 1 : order.index(transformers.Trainer)]:
            if "training_step" in vars(above):
                refuse(
                    f"{above.__name__} has a training_step, which would not be called",
                    f"make the class by castor.wrap({above.__name__})",
                )

    @property
    def _module(self) -> nn.Module:
        assert self.model is not None  # transformers.Trainer has seen to it
        return self.model

    @property
    def engine(self) -> Engine:
        """The engine, which is made where there is none yet."""
        if self._engine is not None and self._engine.model is not self._module:
            self._engine.close()  # model_init has made another
            self._engine = self._callback_gradients = None
        if self._engine is None:
            decays = self._decaying()

            def weight_decay(name: str, parameter: nn.Parameter) -> float | None:
                # The configuration's, which is the arguments', or its group's.
                return None if decays is None or name in decays else 0.0

            engine = initialize(
                self._module, self._castor_config, weight_decay=weight_decay
            )
            if engine.world_size != self.args.world_size:
                engine.close(keep_values=True)
                refuse(
                    f"there are {engine.world_size} ranks, and TrainingArguments "
                    f"knows of {self.args.world_size}",
                    "start all of them with torchrun",
                )
            self._engine = engine
        return self._engine

    def _decaying(self) -> set[str] | None:
        """The names of parameters that decay; None: all do, as the configuration
        says."""
        if self._deepspeed is not None and self._deepspeed.has_optimizer:
            return None
        return set(self.get_decay_parameter_names(self._module))

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        """The groups of transformers.Trainer, with the engine's update."""
        trained = [
            (name, p) for name, p in self._module.named_parameters() if p.requires_grad
        ]
        decays = self._decaying()
        if decays is None:
            decays = {name for name, _ in trained}
        groups: list[dict[str, Any]] = [
            {
                "params": [p for name, p in trained if (name in decays) == decay],
                "weight_decay": self.args.weight_decay if decay else 0.0,
            }
            for decay in (True, False)
        ]
        self.optimizer = _EngineOptimizer(groups, self)
        self.accelerator._optimizers = [self.optimizer]
        return self.optimizer

    def create_scheduler(
        self, num_training_steps: int, *more: Any, **named: Any
    ) -> Any:
        """As transformers.Trainer's; checks the configuration against it. Or the one
        of DeepSpeed's configuration."""
        if self._deepspeed is not None and self._deepspeed.scheduler is not None:
            return self._schedule_of_deepspeed(num_training_steps)
        schedule = super().create_scheduler(num_training_steps, *more, **named)
        rates = None
        if isinstance(schedule, torch.optim.lr_scheduler.LambdaLR):
            base, factor = schedule.base_lrs[0], schedule.lr_lambdas[0]

            def rates(step: int) -> float:
                return float(base * factor(step - 1))

        check_schedule(
            self._castor_config,
            self.args,
            self.engine._managed.run,
            rates,
            num_training_steps,
        )
        return schedule

    def _schedule_of_deepspeed(self, steps: int) -> Any:
        rates = schedule_of(self._deepspeed, self.args, steps)  # type: ignore[arg-type]
        base = float(self.args.learning_rate)
        self.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer,  # type: ignore[arg-type]
            lambda step: rates[min(step, steps)] / base if base else 0.0,
        )
        self._created_lr_scheduler = True
        return self.lr_scheduler

    def training_step(
        self, model: nn.Module, inputs: Any, num_items_in_batch: Any = None
    ) -> torch.Tensor:
        """Forward and backward of a micro batch; the update comes with
        `optimizer.step`, as ever."""
        return self._micro_batch(dict(self._prepared(inputs)), num_items_in_batch)

    def _prepared(self, inputs: Any) -> Any:
        """`_prepare_inputs`, which may call the model: GRPO generates there."""
        own = type(self)._prepare_inputs is transformers.Trainer._prepare_inputs
        if own or self.engine._steps.in_step:
            return self._prepare_inputs(inputs)
        with torch.no_grad():
            prepared = self.engine.compute(lambda: self._prepare_inputs(inputs))
        return copied(prepared, None, _HOST)

    def _prepare_input(self, data: Any) -> Any:
        """As transformers.Trainer's; but on a GPU what the engine copies there itself
        is left where it is. Several ranks gather some of it from their GPUs."""
        if on_gpu(self.args) and self.args.world_size == 1 and not shim.is_entered():
            return data
        return super()._prepare_input(data)

    def _compute(self, function: Any, inputs: dict[str, Any], *more: Any) -> Any:
        """The function of inputs within the engine."""
        return self.engine.compute(function, inputs, *more)

    def prediction_step(
        self, model: nn.Module, inputs: Any, *more: Any, **named: Any
    ) -> Any:
        """As transformers.Trainer's, within the engine."""
        inputs = dict(self._prepare_inputs(inputs))
        if self.engine.world_size > 1 and hasattr(self, "_gen_kwargs"):
            # A rank whose sequences have ended goes on with the others.
            arguments: dict[str, Any] = vars(self)
            arguments["_gen_kwargs"] = {
                "synced_gpus": True, **arguments["_gen_kwargs"]
            }
        return self._from_device(
            self._evaluated(super().prediction_step, model, inputs, *more, **named)
        )

    def _from_device(self, result: Any) -> Any:
        """What an evaluation gives, in host memory; on several GPUs after it was
        gathered from all of them."""
        if on_gpu(self.args) and self.args.world_size > 1:
            return result
        return copied(result, None, _HOST)

    @property
    def gather_function(self) -> Any:
        """transformers.Trainer's, whose results are then in host memory."""
        gather = self._gather
        if not (on_gpu(self.args) and self.args.world_size > 1):
            return gather

        @functools.wraps(gather)
        def gathered(*tensors: Any, **named: Any) -> Any:
            return copied(gather(*tensors, **named), None, _HOST)

        return gathered

    @gather_function.setter
    def gather_function(self, gather: Any) -> None:
        self._gather = gather

    def _evaluated(self, function: Any, *args: Any, **named: Any) -> Any:
        """The function's result within the engine, which may be entered already."""
        if self._evaluating:
            return function(*args, **named)
        self._evaluating = True
        try:
            return self.engine.compute(function, *args, **named)
        finally:
            self._evaluating = False

    def evaluation_loop(self, *more: Any, **named: Any) -> Any:
        """As transformers.Trainer's."""
        self._give_up()
        self._take_over()
        return super().evaluation_loop(*more, **named)

    def get_batch_samples(self, *more: Any, **named: Any) -> Any:
        """As transformers.Trainer's: a step begins."""
        self._give_up()
        return super().get_batch_samples(*more, **named)

    # What transformers.Trainer calls on its way.

    def _prepare_for_training(
        self, max_steps: int, train_dataloader: Any, resume_from_checkpoint: Any
    ) -> Any:
        self.lr_scheduler = None
        self._created_lr_scheduler = False
        self._give_up()
        self._take_over()
        self.create_optimizer()
        if not isinstance(self.optimizer, _EngineOptimizer):
            refuse(
                f"{type(self).__name__} makes an optimizer of its own",
                "leave create_optimizer out: Castor updates parameters itself",
            )
        self.create_scheduler(num_training_steps=max_steps)
        self.model_wrapped = self._module
        self._load_optimizer_and_scheduler(resume_from_checkpoint)
        for name in ("model", "optimizer", "lr_scheduler"):
            setattr(self.callback_handler, name, getattr(self, name))
        self.callback_handler.train_dataloader = train_dataloader
        self._show_gradients_to_callbacks()
        return self.model, train_dataloader

    def _show_gradients_to_callbacks(self) -> None:
        handler: Any = self.callback_handler
        event = type(handler).on_pre_optimizer_step

        def with_gradients(*args: Any, **named: Any) -> Any:
            if self._callback_gradients is None:
                return event(handler, *args, **named)
            scale = self.engine._run.loss_scale
            with self._callback_gradients.shown(
                scale if self.args.fp16 else 1.0,
                float(self._castor_config.get("gradient_clipping") or 0),
                self.args.world_size,
            ):
                return event(handler, *args, **named)

        handler.on_pre_optimizer_step = with_gradients

    def _keep_gradients_for_callbacks(self) -> None:
        """A step begins: has `.grad` in on_pre_optimizer_step if a callback has that,
        but not on a GPU, which has no room for it."""
        wanted = not on_gpu(self.args) and wants_gradients(
            self.callback_handler.callbacks
        )
        kept = self._callback_gradients
        if wanted and kept is None:
            self._callback_gradients = CallbackGradients(self._module)
            self.engine._steps.watch_backward = self._callback_gradients.begin_backward
        elif not wanted and kept is not None:
            kept.close()
            self._callback_gradients = self.engine._steps.watch_backward = None

    def _take_over(self) -> None:
        """The model is the engine's, and accelerate need not prepare it."""
        assert self.engine is not None
        if not self.accelerator._models:
            self.accelerator._models.append(self.model)

    def _move_model_to_device(self, model: Any, device: Any) -> None:
        pass  # parameters are where the engine has them

    def _clip_grad_norm(self, model: Any) -> None:
        return None  # the update clips

    def _get_grad_norm(self, model: Any, grad_norm: Any = None) -> None:
        return None

    def _maybe_log_save_evaluate(
        self, tr_loss: Any, grad_norm: Any, *more: Any, **named: Any
    ) -> None:
        # The norm is known now that the update is over.
        if self.control.should_log and self._engine is not None:
            grad_norm = self._engine.gradient_norm
        super()._maybe_log_save_evaluate(tr_loss, grad_norm, *more, **named)

    def save_model(
        self, output_dir: str | None = None, _internal_call: bool = False
    ) -> None:
        """As transformers.Trainer's: all ranks gather the values, and rank 0
        writes them."""
        self._give_up()
        self._gathered = self._values_to_save()
        try:
            super().save_model(output_dir, _internal_call=_internal_call)
        finally:
            self._gathered = None

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        if state_dict is None:
            state_dict = self._gathered
        if state_dict is None:
            self._give_up()
            state_dict = self._values_to_save()
        if self.args.should_save:
            super()._save(output_dir, state_dict=state_dict)

    def _values_to_save(self) -> dict[str, torch.Tensor]:
        with self.engine._managed.lent(keep=self.args.should_save) as state:
            return state

    # The step.

    def _micro_batch(self, inputs: dict[str, Any], items: Any) -> torch.Tensor:
        engine = self.engine
        if engine._steps.went_backward:
            engine.step()
        if not engine._steps.in_step and self.optimizer is not None:
            # The schedule has set the rate of the step that begins.
            engine._run.expect_rate(float(self.optimizer.param_groups[0]["lr"]))
        if not engine._steps.in_step:
            self._keep_gradients_for_callbacks()
        self._module.train()
        computed: tuple[torch.Tensor, int] = self._compute(
            self._loss_and_parts, inputs, items
        )
        loss, parts = computed
        # Gradients are added over micro batches and over ranks, so that each
        # has its part of the mean; what is logged is a mean over ranks.
        engine.backward(loss, scale=1 / (parts * engine.world_size))
        return loss.detach() / parts

    def _loss_and_parts(
        self, inputs: dict[str, Any], items: Any
    ) -> tuple[torch.Tensor, int]:
        """A micro batch's loss, and how many such losses make a mean on this
        rank: one where it is divided by the items of the whole batch (and
        multiplied by the number of ranks, whose mean is formed)."""
        with self.compute_loss_context_manager():
            loss: Any = self.compute_loss(
                self._module, inputs, num_items_in_batch=items
            )
        scaled = getattr(self, "loss_is_scaled_for_ga", None)
        if scaled is None:
            counted = self.model_accepts_loss_kwargs and items is not None
            scaled = counted or self.compute_loss_func is not None
        return loss, 1 if scaled else self.current_gradient_accumulation_steps

    def _update(self, learning_rate: float) -> None:
        try:
            self.engine.step(learning_rate, last=True)
        except NonFiniteError as error:
            # The step was undone: what was trained until then is kept.
            if self.args.save_strategy != transformers.trainer_utils.SaveStrategy.NO:
                try:
                    self._save_checkpoint(self._module, None)
                except Exception as failed:
                    raise NonFiniteError(
                        f"{error}; nor could what was trained until then be saved: "
                        f"{failed}"
                    ) from failed
            raise

    def _give_up(self) -> None:
        """A step that a callback has ended before its update never began."""
        if self.engine._steps.in_step:
            self.engine.abort()

    # Checkpoints: the model's files, Trainer's state, and the engine's in a folder.

    def _check_saving(self) -> None:
        if self.args.load_best_model_at_end and self.args.save_only_model:
            refuse(
                "TrainingArguments has load_best_model_at_end and save_only_model",
                "leave one of them out: the best model is loaded from the "
                "engine's checkpoint",
            )

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        self.engine.save_checkpoint(os.path.join(output_dir, _FOLDER), lock=False)
        assert self.lr_scheduler is not None
        if self.args.should_save:
            schedule = self.lr_scheduler.state_dict()
            torch.save(schedule, os.path.join(output_dir, _SCHEDULE))

    def _load_from_checkpoint(
        self, resume_from_checkpoint: str, model: Any = None
    ) -> None:
        folder = os.path.join(resume_from_checkpoint, _FOLDER)
        if not os.path.isdir(folder):
            refuse(
                f"resume_from_checkpoint={resume_from_checkpoint} has no folder "
                f"{_FOLDER}",
                "resume from a checkpoint that castor.Trainer saved without "
                "save_only_model",
            )

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if checkpoint is None:
            return
        self._load_engine(checkpoint)
        assert self.lr_scheduler is not None and self.optimizer is not None
        schedule = os.path.join(checkpoint, _SCHEDULE)
        self.lr_scheduler.load_state_dict(torch.load(schedule, weights_only=True))
        rates = self.lr_scheduler.get_last_lr()
        for group, rate in zip(self.optimizer.param_groups, rates):
            group["lr"] = rate

    def _load_best_model(self) -> None:
        self._load_engine(str(self.state.best_model_checkpoint))

    def _load_engine(self, checkpoint: str) -> None:
        # Trainer puts the generator back itself, once it has drawn the order of
        # the data. Settings may be others, as for Trainer: warnings tell of them.
        generator = torch.get_rng_state()
        self.engine.load_checkpoint(os.path.join(checkpoint, _FOLDER), changed=True)
        torch.set_rng_state(generator)
