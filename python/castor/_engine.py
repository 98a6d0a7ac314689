"""The engine: a model with parameters in managed memory."""

from __future__ import annotations

import itertools
import json
import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, TypeVar

import torch
from torch import nn

from castor import _checkpoint
from castor._compiled import watch_compiled_code
from castor._foreign import watch_foreign
from castor._gpu import Gpu, clear_workspaces, wants_gpu
from castor._gpu_memory import is_last_shown, show_in_torch_cuda
from castor._inputs import call_with, loss_of
from castor._launch import port_is_a_store
from castor._library import shim
from castor._managed import Managed
from castor._methods import give_back, take_over
from castor._parameters import check_modules, managed_parameters
from castor._refused import Refused, each_line, first_line
from castor._state import save_pretrained, state_of
from castor._steps import Steps
from castor._zero_init import Config, end_sharing, tell_of_deepspeed, text_of

_Result = TypeVar("_Result")
_EngineKind = TypeVar("_EngineKind", bound="Engine")


def initialize(
    model: nn.Module,
    config: Config | None = None,
    sample_batch: Any = None,
    weight_decay: Callable[[str, nn.Parameter], float | None] | None = None,
) -> Engine:
    """Moves a model's parameters into managed memory.

    Values go there one parameter at a time, and the memory that they had is
    freed. Parameters become fp32, or bf16 where the configuration has bf16 (a
    master copy is kept then). Those with requires_grad are trained; tied
    ones are one. Buffers are copied to the device and count. A model that is in
    evaluation mode, as from_pretrained leaves it, is in training mode afterwards.

    Args:
        model: on the CPU; it keeps its modules and Parameter objects. With
            {"device": {"type": "cuda"}} parameters and buffers are on PyTorch's
            current GPU afterwards. Nothing in the process may have used CUDA
            before the first such call.
        config: a path of a JSON file or a mapping with the keys of `castor
            train`, without the model and the data; or DeepSpeed's. Default:
            that of the `ZeroInit` in which the model was made, or that is
            active.
        sample_batch: what a micro batch looks like, a mapping or a sequence of
            the model's arguments. With it, a forward and a backward pass are
            made at once, so that what does not fit is refused here.
        weight_decay: gives a parameter's weight decay for its name; None means
            the configuration's.

    Raises:
        ValueError: the configuration is wrong, or a parameter cannot be managed.
        Refused: it does not fit. The model has its values again, in fp32 or
            bf16.
    """
    return make_engine(Engine, model, config, sample_batch, weight_decay)


def make_engine(
    kind: type[_EngineKind],
    model: nn.Module,
    config: Config | None,
    sample_batch: Any = None,
    weight_decay: Callable[[str, nn.Parameter], float | None] | None = None,
) -> _EngineKind:
    """`initialize`, for an engine of that kind."""
    end_sharing()
    if not isinstance(model, nn.Module):
        raise TypeError(
            f"castor.initialize: a model is a torch.nn.Module, and this is a "
            f"{type(model).__name__}"
        )
    check_modules(model)
    parameters = managed_parameters(model)
    text = text_of(config, "castor.initialize", model)
    tell_of_deepspeed(text)
    described = []
    for name, parameter in parameters.items():
        decay = weight_decay(name, parameter) if weight_decay else None
        described.append((name, parameter, -1.0 if decay is None else decay))
    gpu = Gpu() if wants_gpu(text) else None
    try:
        run = shim.Run(
            text,
            described,
            port_is_a_store(),
            gpu.place if gpu is not None else None,
        )
    except RuntimeError as error:
        refusal = shim.take_refusal_of_open()
        if refusal is not None:
            raise Refused(refusal) from None
        raise ValueError(each_line(error, "castor.initialize")) from None
    if gpu is not None:
        show_in_torch_cuda(run)
    sizes = [(n, list(p.shape), p.requires_grad, decay) for n, p, decay in described]

    def foresee(uses: str) -> str:
        return shim.foresee(text, sizes, uses, run.world_size)

    engine = kind(Managed(model, run, list(parameters.values()), gpu, foresee))
    failure: BaseException | None = None
    modes = [(module, module.training) for module in model.modules()]
    if not model.training:  # else a part may have a mode of its own
        model.train()
    try:
        engine._managed.adopt()
        take_over(engine._managed, engine._steps)
        watch_foreign()
        watch_compiled_code()
        engine._steps.take_buffers()
        if sample_batch is not None:
            engine._steps.rehearse(sample_batch)
    except BaseException as error:
        engine.close(keep_values=True)
        for module, mode in modes:
            module.training = mode
        if not isinstance(error, Refused):
            raise
        failure = error
    if failure is not None:
        raise failure.with_traceback(None)
    return engine


class Engine:
    """A model whose parameters are in managed memory; see `initialize`.

    `backward` and `step` are called once for each micro batch; the update comes
    with the last of `gradient_accumulation_steps`. An exception in forward,
    backward or step puts parameters and optimizer back to the step's beginning,
    and the engine can be used further.

    The engine holds the model, and nothing in the model holds the engine. When
    the last reference to it goes, or by `close`, its memory is freed.
    """

    def __init__(self, managed: Managed) -> None:
        self._managed = managed
        self._model = managed.model
        self._run = managed.run
        self._steps = Steps(managed)

    def __repr__(self) -> str:
        model = type(self._model).__name__
        if self._run.closed:
            return f"<castor.Engine of {model}, closed>"
        elements = sum(p.numel() for p in self._managed.parameters)
        return (
            f"<castor.Engine of {model}, {elements:,} parameters, after "
            f"{self.global_steps} steps>"
        )

    @property
    def model(self) -> nn.Module:
        """The model that `initialize` was given."""
        return self._model

    @property
    def gradient_accumulation_steps(self) -> int:
        """How many micro batches make a step."""
        return self._steps.micro_batches

    @property
    def rank(self) -> int:
        """Which of the ranks this process is, from 0."""
        return self._managed.rank

    @property
    def world_size(self) -> int:
        """How many ranks train the model together."""
        return self._managed.world_size

    @property
    def global_steps(self) -> int:
        """The steps so far, with those that were undone (`NonFiniteError`)."""
        return self._run.steps

    @property
    def learning_rate(self) -> float:
        """What the schedule has for the next update."""
        return self._run.learning_rate

    @property
    def gradient_norm(self) -> float | None:
        """The norm of the latest step's gradients before they were clipped, infinite
        where one is not finite; None without gradient_clipping and
        on_nonfinite_undo, or before the first step."""
        norm = self._run.gradient_norm()
        return norm if norm > 0 else None

    def train(self, mode: bool = True) -> Engine:
        """As the model's."""
        self._model.train(mode)
        return self

    def eval(self) -> Engine:
        """As the model's: after it, forward passes are evaluations."""
        return self.train(False)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The model's forward. Tensors among the arguments are copied.

        It is an evaluation, without a graph, after `eval` or under
        `torch.no_grad`; otherwise it belongs to the step that is under way, or
        begins one. Between `backward` and `step` it is an error.
        """
        return self.compute(self._model, *args, **kwargs)

    def compute(
        self, function: Callable[..., _Result], *args: Any, **kwargs: Any
    ) -> _Result:
        """As a call of the engine, of a function that calls the model.

        What the function allocates, as for a loss of its own, counts as the
        device's, and the function may read parameters. It may be called again,
        where an evaluation or a step is undone.
        """
        return self._steps.compute(function, args, kwargs)

    def backward(self, loss: torch.Tensor, scale: float | None = None) -> None:
        """Adds the gradients of a micro batch: of `loss` (a scalar), divided by
        `gradient_accumulation_steps`. Afterwards every `.grad` is None.

        Args:
            loss: what this micro batch's forward passes gave.
            scale: multiply the loss by this instead; 1 where it is divided
                already, as by the number of labelled items of the whole batch.
        """
        self._steps.backward(loss, scale)

    def step(self, learning_rate: float | None = None, last: bool = False) -> bool:
        """Ends a micro batch; with the last one, updates the parameters.

        Args:
            learning_rate: for this update, instead of the schedule's.
            last: the update comes now, whether or not more micro batches belong
                to a step, as at the end of an epoch. The losses that were
                are divided as ever; see `backward`.

        Returns:
            Whether a step ended: with an update, unless it was skipped
            (`"on_nonfinite": "skip"`).
        """
        return self._steps.end_micro_batch(learning_rate, last)

    def train_batch(self, batches: Iterable[Any]) -> torch.Tensor:
        """A whole step: takes `gradient_accumulation_steps` micro batches, each
        a mapping or a sequence of the model's arguments.

        Returns:
            The mean of their losses, [].
        """
        if isinstance(batches, (Mapping, torch.Tensor)):
            raise TypeError(
                "castor: train_batch wants several micro batches, and this is one; "
                "give [batch], or an iterator of gradient_accumulation_steps"
            )
        micro_batches = self._steps.micro_batches
        step = list(itertools.islice(batches, micro_batches))
        if len(step) < micro_batches:
            raise ValueError(
                f"castor: train_batch got {len(step)} of {micro_batches} "
                "micro batches"
            )
        if self._steps.in_step:
            raise RuntimeError(
                "castor: train_batch within a step; end it with engine.step(), or "
                "give it up with engine.abort()"
            )
        total = torch.zeros(())
        for batch in step:
            try:
                loss = loss_of(call_with(self, batch))
            except ValueError:  # there is none, which no pass can know
                self.abort()
                raise
            self.backward(loss)
            total += loss.detach().float().reshape(()).cpu()
            del loss
            self.step()
        return total / len(step)

    def abort(self) -> None:
        """Gives up the step that is under way, as if it had not begun."""
        self._steps.abort()

    @property
    def claimed_bytes(self) -> int:
        """What the device holds beside parameters: buffers, and the tensors
        made in forward and backward passes that still live, 64 bytes more for
        each and rounded up to 64."""
        return self._run.claimed_bytes

    def set_device_memory(self, size: str | int) -> None:
        """Makes `size` the budget of the device's memory, in place of the
        configuration's. Between steps only. The next step is planned for it; what
        no longer fits leaves the device, and memory that it does without is the
        system's again. No step is lost, and results do not depend on it. On
        several ranks all of them call it with the same size.

        Args:
            size: "12GiB", or a number of bytes.

        Raises:
            Refused: too little for steps of the kinds so far; it says the least
                that does. The run goes on as it was.
            ValueError: no such size, or more than this machine has.
            RuntimeError: within a step.
            NotImplementedError: the device is a GPU.
        """
        if self._steps.in_step:
            raise RuntimeError("castor: the device's memory changes between steps")
        if self._managed.gpu is not None:
            raise NotImplementedError(
                "castor: the memory of a GPU that PyTorch computes on cannot change"
            )
        try:
            self._run.set_device_memory(str(size))
        except RuntimeError as error:
            refusal = self._run.take_refusal()
            if refusal is not None:
                raise Refused(refusal) from None
            raise ValueError(
                f"castor: set_device_memory: {first_line(error)}"
            ) from None

    def summary(self) -> dict[str, Any]:
        """Keys of `castor train --summary`."""
        summary: dict[str, Any] = json.loads(self._run.summary())
        return summary

    def state_dict(self) -> dict[str, torch.Tensor]:
        """The model's state by name, in host memory: parameters in fp32 (of
        trained ones the master copy), buffers as they are. Between steps only.
        On several ranks all of them call it.
        """
        return state_of(self._managed)

    def save_pretrained(self, directory: str | os.PathLike[str], **kwargs: Any) -> None:
        """As the save_pretrained of a model of `transformers`, with its
        arguments; parameters are written in the type in which they compute. On
        several ranks all of them call it, and rank 0 writes."""
        save_pretrained(self._managed, directory, kwargs)

    def save_checkpoint(
        self,
        directory: str | os.PathLike[str],
        client_state: Any = None,
        *,
        keep: int | None = None,
        keep_aside: int | None = None,
        lock: bool = True,
    ) -> str:
        """Saves all that a run needs to go on to the same bits: parameters,
        optimizer states, the step, the model's buffers and the state of
        PyTorch's generator of random numbers. Between steps only.

        The format is that of `castor train`. The checkpoint appears at once, or
        not at all. Until the engine closes, no other run saves into the
        directory; later steps' checkpoints that are there at first are another
        run's, and move to DIRECTORY.1, which a warning tells with its size.

        On several ranks all of them call it with the same arguments, and write
        their shares at the same time; a failure of one is one of all. Buffers
        and client_state are rank 0's, the generator's state is each rank's.

        Args:
            directory: made where it is missing; gets step-00000100.castor. All
                ranks see it.
            client_state: what the program wants back, such as its place in the
                data; of types that JSON has.
            keep: how many of the newest checkpoints stay; None: all.
            keep_aside: how many of the directories DIRECTORY.1, DIRECTORY.2, ...
                stay, the newest; None: all. A warning tells of each that goes.
            lock: False where the file system has no locks, and no other run
                saves into the directory.

        Returns:
            The checkpoint's path.

        Raises:
            CheckpointError: it cannot be saved; the run can go on.
        """
        return _checkpoint.save(
            self._managed, directory, client_state, keep, keep_aside, lock
        )

    def load_checkpoint(
        self, path: str | os.PathLike[str], *, changed: bool = False
    ) -> tuple[str, Any]:
        """Goes on from a checkpoint, of `save_checkpoint` or of `castor train`
        for a model whose parameters have the same names. Between steps only.

        It may be of another number of ranks: where the whole batch is the same,
        micro batches of all ranks, the bits go on as well. Of another number,
        all ranks take rank 0's state of PyTorch's generator.

        Args:
            path: a checkpoint, or a directory of them, of which the newest that
                is whole is taken.
            changed: whether settings that determine bits, such as the learning
                rate, may be other ones than the checkpoint's run had. They are
                told as warnings then.

        Returns:
            The checkpoint's path and its client_state; None if `castor train`
            wrote it, which keeps neither buffers nor PyTorch's generator.

        Raises:
            CheckpointError: there is none, it is not whole, or it is of another
                model, optimizer or run. Nothing has changed.
        """
        return _checkpoint.load(self._managed, path, changed)

    def trace(self, path: str | os.PathLike[str], steps: str = "") -> None:
        """Writes a trace from now on, for `castor trace view` and `castor trace
        export`: operators, copies, waits with their causes, and all bytes of
        the device. Between steps only. It ends with `end_trace` or `close`.

        A step that is recorded, as the first of its kind, is in it with its
        result alone. On several ranks all of them call this and `end_trace`, or
        `close`; then the file has all ranks.

        Args:
            path: a file, which is replaced. Until the end, rank K > 0 writes to
                PATH.rank-K.
            steps: "FIRST:LAST", the steps to trace in full; by default those
                that come next.

        Raises:
            ValueError: the file cannot be written, `steps` is no such thing, or
                there is a trace already.
        """
        if self._steps.in_step:
            raise RuntimeError("castor: a trace begins between steps")
        elements = sum(p.numel() for p in self._managed.parameters)
        title = f"{type(self._model).__name__}, {elements / 1e6:.1f} M parameters"
        try:
            self._run.trace(os.fspath(path), title, steps)
        except RuntimeError as error:
            what = first_line(error).removeprefix("castor: ")
            raise ValueError(f"castor: trace: {what}") from None

    def end_trace(self) -> None:
        """Ends the trace that `trace` began. What could not be written of it, as
        when the disk is full, is told as a warning."""
        try:
            self._run.end_trace()
        except RuntimeError as error:
            warnings.warn(f"castor: trace: {first_line(error)}", stacklevel=2)

    def close(self, keep_values: bool = False) -> None:
        """Frees all memory of the engine. A second call does nothing.

        Args:
            keep_values: the model's parameters get their values back, in host
                memory. Otherwise reading one is an error from now on.
        """
        if self._run.closed:
            return
        with self._steps.alone():
            if self._steps.in_step:
                self.abort()
            self.end_trace()
            give_back(self._model)
            try:
                if keep_values:
                    self._managed.give_back()
                if self._managed.gpu is not None and is_last_shown(self._run):
                    # A thread that the user started may have made one within a
                    # step, in the engine's memory.
                    clear_workspaces()
            finally:
                self._run.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
