"""The engine: a model with parameters in managed memory."""

from __future__ import annotations

import itertools
import json
import os
import warnings
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Any, TypeVar

import torch
from torch import nn

from castor import _checkpoint
from castor._checkpoint import on_all_ranks
from castor._compiled import plain_name, watch_compiled_code
from castor._generation import generating_modules, meeting_at_each_token
from castor._generator import drawing_from, drawing_undone, generator_seed
from castor._gpu import Gpu, move_buffers, wants_gpu
from castor._inputs import call_with, copied, description, loss_of
from castor._launch import port_is_a_store
from castor._library import shim
from castor._parameters import check_modules, managed_parameters
from castor._refused import Refused, StepUndone
from castor._shared_init import owner_of
from castor._zero_init import Config, end_sharing, text_of

_Result = TypeVar("_Result")


def initialize(
    model: nn.Module,
    config: Config | None = None,
    sample_batch: Any = None,
    weight_decay: Callable[[str, nn.Parameter], float | None] | None = None,
) -> Engine:
    """Moves a model's parameters into managed memory.

    Values go there one parameter at a time, and the memory that they had is
    freed. Parameters become fp32, or bf16 where the configuration has bf16 (an
    fp32 master copy is kept then). Those with requires_grad are trained; tied
    ones are one. Buffers are copied to the device and count.

    Args:
        model: on the CPU; it keeps its modules and Parameter objects. With
            {"device": {"type": "cuda"}} parameters and buffers are on PyTorch's
            current GPU afterwards. Nothing in the process may have used CUDA
            before the first such call.
        config: a path of a JSON file or a mapping with the keys of `castor
            train`, without the model and the data. Default: that of the
            `ZeroInit` in which the model was made, or that is active.
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
    end_sharing()
    check_modules(model)
    parameters = managed_parameters(model)
    text = text_of(config, "castor.initialize", model)
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
        raise ValueError(f"castor.initialize: {_first_line(error)}") from None
    engine = Engine(model, run, list(parameters.values()), gpu)
    failure: BaseException | None = None
    try:
        engine._adopt()
        if sample_batch is not None:
            engine._rehearse(sample_batch)
    except BaseException as error:
        engine.close(keep_values=True)
        if not isinstance(error, Refused):
            raise
        failure = error
    if failure is not None:
        raise failure.with_traceback(None)
    return engine


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


class Engine:
    """A model whose parameters are in managed memory; see `initialize`.

    `backward` and `step` are called once for each micro batch; the update comes
    with the last of `gradient_accumulation_steps`. An exception in forward,
    backward or step puts parameters and optimizer back to the step's beginning,
    and the engine can be used further.

    The engine holds the model, and nothing in the model holds the engine. When
    the last reference to it goes, or by `close`, its memory is freed.
    """

    def __init__(
        self,
        model: nn.Module,
        run: shim.Run,
        parameters: list[nn.Parameter],
        gpu: Gpu | None = None,
    ) -> None:
        self._model = model
        self._run = run
        self._gpu = gpu
        self._parameters = parameters
        self._micro_batches = run.micro_batches
        self._rank = run.rank
        self._world_size = run.world_size
        self._generating = generating_modules(model) if self._world_size > 1 else []
        self._in_step = False
        self._went_backward = False
        self._micro_batch = 0
        self._passes = 0  # of the micro batch

    @property
    def model(self) -> nn.Module:
        """The model that `initialize` was given."""
        return self._model

    @property
    def gradient_accumulation_steps(self) -> int:
        """How many micro batches make a step."""
        return self._micro_batches

    @property
    def rank(self) -> int:
        """Which of the ranks this process is, from 0."""
        return self._rank

    @property
    def world_size(self) -> int:
        """How many ranks train the model together."""
        return self._world_size

    @property
    def global_steps(self) -> int:
        """The updates done so far."""
        return self._run.steps

    @property
    def learning_rate(self) -> float:
        """What the schedule has for the next update."""
        return self._run.learning_rate

    @property
    def gradient_norm(self) -> float | None:
        """The norm of the latest step's gradients before they were clipped; None
        without gradient_clipping, or before the first step."""
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
        device's, and the function may read parameters. It may be called twice,
        where an evaluation is undone.
        """
        if self._went_backward:
            raise RuntimeError(
                "castor: a forward pass between backward and step; call "
                "engine.step() first, once for each micro batch"
            )
        if self._model.training and torch.is_grad_enabled():
            self._begin_step()
            with self._own_generator():
                return self._pass(function, args, kwargs)
        if self._in_step:
            with torch.no_grad(), drawing_undone(self._gpu):
                return self._pass(function, args, kwargs)
        try:
            return self._evaluate(function, args, kwargs)
        except StepUndone:
            pass
        return self._evaluate(function, args, kwargs)

    def backward(self, loss: torch.Tensor, scale: float | None = None) -> None:
        """Adds the gradients of a micro batch: of `loss` (a scalar), divided by
        `gradient_accumulation_steps`. Afterwards every `.grad` is None.

        Args:
            loss: what this micro batch's forward passes gave.
            scale: multiply the loss by this instead; 1 where it is divided
                already, as by the number of labelled items of the whole batch.
        """
        if not self._in_step:
            raise RuntimeError(
                "castor: backward without a forward pass of this step; call the "
                "engine in training mode first"
            )
        if self._went_backward:
            raise RuntimeError(
                "castor: a second backward in one micro batch; call "
                "engine.step() after each, or add the losses"
            )
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            raise ValueError("castor: backward wants a loss of one element")
        with self._own_generator():
            self._inside(self._run.enter_backward, self._backward, (loss, scale), {})
        self._went_backward = True

    def step(self, learning_rate: float | None = None, last: bool = False) -> bool:
        """Ends a micro batch; with the last one, updates the parameters.

        Args:
            learning_rate: for this update, instead of the schedule's.
            last: the update comes now, whether or not more micro batches belong
                to a step, as at the end of an epoch. The losses that were
                are divided as ever; see `backward`.

        Returns:
            Whether there was an update.
        """
        if not self._went_backward:
            raise RuntimeError(
                "castor: step without backward; call engine.backward(loss) "
                "first, once for each micro batch"
            )
        self._went_backward = False
        self._passes = 0
        self._micro_batch += 1
        while last and self._micro_batch < self._micro_batches:
            self._inside(self._run.enter_backward, self._no_micro_batch, (), {})
            self._micro_batch += 1
        if self._micro_batch < self._micro_batches:
            return False
        rate = -1.0 if learning_rate is None else learning_rate
        self._inside(None, self._run.step, (rate,), {})
        self._micro_batch = 0
        self._in_step = False
        return True

    def train_batch(self, batches: Iterable[Any]) -> torch.Tensor:
        """A whole step: takes `gradient_accumulation_steps` micro batches, each
        a mapping or a sequence of the model's arguments.

        Returns:
            The mean of their losses, [].
        """
        step = list(itertools.islice(batches, self._micro_batches))
        if len(step) < self._micro_batches:
            raise ValueError(
                f"castor: train_batch got {len(step)} of {self._micro_batches} "
                "micro batches"
            )
        if self._in_step:
            raise RuntimeError(
                "castor: train_batch within a step; end it with engine.step(), or "
                "give it up with engine.abort()"
            )
        try:
            return self._whole_step(step)
        except StepUndone:
            pass
        return self._whole_step(step)

    def _whole_step(self, step: list[Any]) -> torch.Tensor:
        total = torch.zeros(())
        for batch in step:
            loss = loss_of(call_with(self, batch))
            self.backward(loss)
            total += loss.detach().float().reshape(()).cpu()
            del loss
            self.step()
        return total / len(step)

    def abort(self) -> None:
        """Gives up the step that is under way, as if it had not begun."""
        self._in_step = False
        self._went_backward = False
        self._passes = 0
        self._micro_batch = 0
        if not self._run.closed:
            self._run.abort()

    @property
    def claimed_bytes(self) -> int:
        """What the device holds beside parameters: buffers, and the tensors
        made in forward and backward passes that still live, 64 bytes more for
        each and rounded up to 64."""
        return self._run.claimed_bytes

    def summary(self) -> dict[str, Any]:
        """Keys of `castor train --summary`."""
        summary: dict[str, Any] = json.loads(self._run.summary())
        return summary

    def state_dict(self) -> dict[str, torch.Tensor]:
        """The model's state by name, in host memory: parameters in fp32 (of
        trained ones the master copy), buffers as they are. Between steps only.
        On several ranks all of them call it.
        """
        return self._state(lambda values: values)

    def _state(
        self, of_parameter: Callable[[torch.Tensor], torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        """The model's state; of each parameter's fp32 values, what the function
        makes of them before those of the next are there."""
        ids = {id(p): i for i, p in enumerate(self._parameters)}
        values: dict[int, torch.Tensor] = {}
        state: dict[str, torch.Tensor] = {}
        for name, tensor in self._model.state_dict(keep_vars=True).items():
            number = ids.get(id(tensor))
            if number is None:
                if isinstance(tensor, torch.Tensor):
                    tensor = tensor.detach()
                    tensor = tensor.cpu() if tensor.is_cuda else tensor.clone()
                state[name] = tensor
                continue
            if number not in values:  # tied names get one tensor
                values[number] = of_parameter(self._run.values(number))
            state[name] = values[number]
        return state

    def save_pretrained(self, directory: str | os.PathLike[str], **kwargs: Any) -> None:
        """As the save_pretrained of a model of `transformers`, with its
        arguments; parameters are written in the type in which they compute. On
        several ranks all of them call it, and rank 0 writes."""
        save = getattr(self._model, "save_pretrained", None)
        if save is None:
            raise TypeError(
                f"castor: {type(self._model).__name__} has no save_pretrained; "
                "save engine.state_dict() instead"
            )
        state = self._state_to_save(keep=self._rank == 0)

        def write() -> str:
            if self._rank == 0:
                save(directory, state_dict=state, **kwargs)
            return ""

        on_all_ranks(self, "save_pretrained", write)

    def _state_to_save(self, keep: bool = True) -> dict[str, torch.Tensor]:
        """The model's state, parameters in the type in which they compute, under
        the names that they have without torch.compile.

        Args:
            keep: False on a rank that takes part and needs no values; it gets
                none.
        """
        dtype = self._parameters[0].dtype
        if keep:
            state = self._state(lambda values: values.to(dtype))
            return {plain_name(name): value for name, value in state.items()}
        self._state(lambda values: torch.empty(0))
        return {}

    def save_checkpoint(
        self,
        directory: str | os.PathLike[str],
        client_state: Any = None,
        *,
        keep: int | None = None,
        lock: bool = True,
    ) -> str:
        """Saves all that a run needs to go on to the same bits: parameters,
        optimizer states, the step, the model's buffers and the state of
        PyTorch's generator of random numbers. Between steps only.

        The format is that of `castor train`. The checkpoint appears at once, or
        not at all. Until the engine closes, no other run saves into the
        directory; later steps' checkpoints that are there at first are another
        run's, and move to DIRECTORY.1.

        On several ranks all of them call it with the same arguments, and write
        their shares at the same time; a failure of one is one of all. Buffers
        and client_state are rank 0's, the generator's state is each rank's.

        Args:
            directory: made where it is missing; gets step-00000100.castor. All
                ranks see it.
            client_state: what the program wants back, such as its place in the
                data; of types that JSON has.
            keep: how many of the newest checkpoints stay; None: all.
            lock: False where the file system has no locks, and no other run
                saves into the directory.

        Returns:
            The checkpoint's path.

        Raises:
            CheckpointError: it cannot be saved; the run can go on.
        """
        return _checkpoint.save(self, directory, client_state, keep, lock)

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
        return _checkpoint.load(self, path, changed)

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
        if self._in_step:
            raise RuntimeError("castor: a trace begins between steps")
        elements = sum(p.numel() for p in self._parameters)
        title = f"{type(self._model).__name__}, {elements / 1e6:.1f} M parameters"
        try:
            self._run.trace(os.fspath(path), title, steps)
        except RuntimeError as error:
            raise ValueError(f"castor: trace: {_first_line(error)}") from None

    def end_trace(self) -> None:
        """Ends the trace that `trace` began. What could not be written of it, as
        when the disk is full, is told as a warning."""
        try:
            self._run.end_trace()
        except RuntimeError as error:
            warnings.warn(f"castor: trace: {_first_line(error)}", stacklevel=2)

    def close(self, keep_values: bool = False) -> None:
        """Frees all memory of the engine. A second call does nothing.

        Args:
            keep_values: the model's parameters get their values back, in host
                memory. Otherwise reading one is an error from now on.
        """
        if self._run.closed:
            return
        if self._in_step:
            self.abort()
        self.end_trace()
        if keep_values:
            for number, parameter in enumerate(self._parameters):
                if shim.is_managed(parameter):
                    values = self._run.values(number)
                    parameter.data = values.to(parameter.dtype)
            if self._gpu is not None:
                move_buffers(self._model, torch.device("cpu"))
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

    def _adopt(self) -> None:
        for number, parameter in enumerate(self._parameters):
            owner = owner_of(parameter)
            if owner == self._rank:
                shim.bring_back(parameter)
            self._run.adopt(number, parameter, owner or 0)
        self._inside(self._run.enter_forward, self._copy_buffers, (), {})

    def _copy_buffers(self) -> None:
        if self._gpu is not None:
            move_buffers(self._model, self._gpu.device)
            return
        buffers = [b for b in self._model.buffers() if b.layout == torch.strided]
        storages = [b.untyped_storage().data_ptr() for b in buffers]
        for buffer, storage in zip(buffers, storages):
            if storages.count(storage) == 1:  # else they belong together
                buffer.data = buffer.data.clone()

    def _pass(
        self, function: Callable[..., _Result], args: Any, kwargs: Any
    ) -> _Result:
        def forward(*args: Any, **kwargs: Any) -> _Result:
            self._run.announce(f"inputs {description((args, kwargs))}")
            dtype = self._parameters[0].dtype
            floats = dtype if dtype != torch.float32 else None
            buffers = self._buffer_versions()
            device = self._gpu.device if self._gpu is not None else None
            with meeting_at_each_token(self._generating, self._meet_for_a_token):
                result = function(
                    *copied(args, floats, device), **copied(kwargs, floats, device)
                )
            for name, version in self._buffer_versions().items():
                if buffers.get(name) != version:
                    raise RuntimeError(
                        f"castor: forward writes the buffer {name}, and each of "
                        f"the {self._world_size} ranks would have another one; "
                        "train on one rank, or freeze what it counts"
                    )
            return result

        return self._inside(self._run.enter_forward, forward, args, kwargs)

    def _backward(self, loss: torch.Tensor, scale: float | None) -> None:
        if scale is not None:
            loss = loss if scale == 1 else loss * scale
        elif self._micro_batches * self._world_size > 1:
            loss = loss / (self._micro_batches * self._world_size)
        torch.autograd.backward(loss)
        self._run.end_backward()

    def _buffer_versions(self) -> dict[str, tuple[int, int]]:
        """What tells that a buffer was written; nothing on one rank."""
        if self._world_size == 1:
            return {}
        return {name: (id(b), b._version) for name, b in self._model.named_buffers()}

    def _meet_for_a_token(self) -> None:
        self._run.announce("whether all sequences have ended")

    def _no_micro_batch(self) -> None:
        self._run.announce("no micro batch")
        self._run.end_backward()

    def _evaluate(
        self, function: Callable[..., _Result], args: Any, kwargs: Any
    ) -> _Result:
        with torch.no_grad(), drawing_undone(self._gpu):
            self._inside(None, self._run.begin, (False,), {})
            result = self._pass(function, args, kwargs)
            self._inside(None, self._run.end_evaluation, (), {})
        return result

    def _begin_step(self) -> None:
        if self._in_step:
            return
        self._inside(None, self._run.begin, (True,), {})
        self._in_step = True

    def _own_generator(self) -> AbstractContextManager[None]:
        micro_batch = self._micro_batch * self._world_size + self._rank
        seed = generator_seed(
            self._run.seed, self._run.steps + 1, micro_batch, self._passes
        )
        self._passes += 1
        return drawing_from(seed, self._gpu)

    def _rehearse(self, batch: Any) -> None:
        """A forward and a backward pass that leave no trace in the model."""
        buffers = [(b, b.detach().clone()) for b in self._model.buffers()]
        was_training = self._model.training
        self._model.train()
        with torch.enable_grad():
            self.backward(loss_of(call_with(self, batch)))
        self.abort()
        self._model.train(was_training)
        with torch.no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)

    def _inside(
        self,
        enter: Callable[[], None] | None,
        work: Callable[..., _Result],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> _Result:
        """Does `work` between `enter` and leave. A failure ends the step."""
        refusal = None
        try:
            with self._gpu.current() if self._gpu is not None else nullcontext():
                if enter is None:
                    return work(*args, **kwargs)
                watch_compiled_code()
                enter()
                try:
                    return work(*args, **kwargs)
                finally:
                    self._run.leave()
        except BaseException as error:
            self.abort()
            refusal = self._run.take_refusal()
            undone = self._run.take_again()
            if refusal is None and not undone:
                raise
            what = _first_line(error)
        # Outside the handler, so that the error does not keep the failed pass's
        # tensors.
        raise StepUndone(what) if refusal is None else Refused(refusal)
