"""Passes through a managed model, and the steps that they make."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import torch

from castor._compiled import watch_compiled_code
from castor._foreign import note_rate_is_given
from castor._generation import generating_modules, meeting_at_each_token
from castor._generator import drawing_from, drawing_undone, generator_seed
from castor._gpu import move_buffers
from castor._inputs import call_with, copied, description, extents, kind, loss_of
from castor._managed import Managed
from castor._refused import NonFiniteError, Refused, StepUndone, first_line
from castor._plan import foresee_budget
from castor._repeat import Pass

if TYPE_CHECKING:
    from castor._shim import Refusal

_Result = TypeVar("_Result")
_Method = TypeVar("_Method", bound=Callable[..., Any])


def _alone(method: _Method) -> _Method:
    """For a method that one thread may be in at a time: see `Steps.alone`."""

    @functools.wraps(method)
    def guarded(self: Steps, *args: Any, **kwargs: Any) -> Any:
        with self.alone():
            return method(self, *args, **kwargs)

    return cast(_Method, guarded)


class _Buffer(NamedTuple):
    """A buffer of the model's, as it was."""

    tensor: torch.Tensor
    version: int
    values: torch.Tensor

    def is_other(self, tensor: torch.Tensor) -> bool:
        """Whether the buffer, which now is `tensor`, may have other values."""
        return tensor is not self.tensor or tensor._version != self.version


class Steps:
    """What an `Engine` does with its model, one pass after the other; see there.

    Attributes:
        micro_batches: of a step.
        in_step: a step has begun and is not over.
        went_backward: and a micro batch of it awaits `step`.
        watch_backward: is told of each backward pass that begins, by its micro
            batch; None: nobody is.
    """

    def __init__(self, managed: Managed) -> None:
        self._managed = managed
        self._model = managed.model
        self._run = managed.run
        self._gpu = managed.gpu
        self._generating = (
            generating_modules(managed.model) if managed.world_size > 1 else []
        )
        self.micro_batches = managed.run.micro_batches
        self.in_step = False
        self.went_backward = False
        self.watch_backward: Callable[[int], None] | None = None
        self._micro_batch = 0
        self._passes = 0  # of the micro batch
        # The step's forward passes, of each micro batch.
        self._done: list[list[Pass]] = [[]]
        # The training pass that began last, to foresee what it takes.
        self._at_hand: tuple[Callable[..., Any], Any, Any] | None = None
        self._buffer_bytes = 0
        self._kept_bytes = 0  # by whoever calls, when the step began
        self._has_evaluated = False  # within the step
        # Buffers' values before the step. Passes may write them on one rank.
        self._before: dict[str, _Buffer] = {}
        self._lock = threading.Lock()
        self._inside_calls = 0
        self._inside_thread = self._step_thread = threading.current_thread()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """While no other thread is in the engine or in its step. Otherwise it is
        an error, which leaves the other's step as it is."""
        me = threading.current_thread()
        with self._lock:
            other = me
            if self._inside_calls > 0:
                other = self._inside_thread
            elif self.in_step:
                other = self._step_thread
            if other is not me and other.is_alive():
                raise RuntimeError(
                    f'castor: the thread "{other.name}" is in a step or a pass of '
                    "this engine, which one thread may use at a time: call it from "
                    "one thread, or from another one between steps"
                )
            self._inside_thread = me
            self._inside_calls += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside_calls -= 1

    @_alone
    def take_buffers(self) -> None:
        """Copies the model's buffers to the device."""
        self._inside(self._run.enter_forward, self._copy_buffers, (), {})
        self._buffer_bytes = self._run.claimed_bytes

    @_alone
    def compute(
        self, function: Callable[..., _Result], args: Any, kwargs: Any
    ) -> _Result:
        """`Engine.compute`."""
        if self.went_backward:
            raise RuntimeError(
                "castor: a forward pass between backward and step; call "
                "engine.step() first, once for each micro batch"
            )
        if self._model.training and torch.is_grad_enabled():
            self._begin()
            self._at_hand = (function, args, kwargs)
            with self._own_generator():
                output = self._pass(function, args, kwargs)
            self._done[-1].append(Pass(function, args, kwargs, output))
            return output
        if self.in_step:
            # What it does to buffers would not be done again.
            self._has_evaluated = True
            with torch.no_grad(), drawing_undone(self._gpu):
                return self._pass(function, args, kwargs)
        try:
            return self._evaluate(function, args, kwargs)
        except StepUndone:
            pass
        return self._evaluate(function, args, kwargs)

    @property
    def is_last_micro_batch(self) -> bool:
        """Whether the micro batch that is under way ends a step."""
        return self._micro_batch + 1 >= self.micro_batches

    @_alone
    def backward(self, loss: torch.Tensor, scale: float | None) -> None:
        """`Engine.backward`."""
        if not self.in_step:
            raise RuntimeError(
                "castor: backward without a forward pass of this step; call the "
                "engine in training mode first"
            )
        if self.went_backward:
            raise RuntimeError(
                "castor: a second backward in one micro batch; call "
                "engine.step() after each, or add the losses"
            )
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            raise ValueError(
                f"castor: backward wants a loss of one element, not a "
                f"{description(loss)}; give it the model's output.loss, or a mean"
            )
        if not self._done[-1]:
            raise RuntimeError(
                "castor: backward without a forward pass of this micro batch; call "
                "the engine in training mode first"
            )
        self._done[-1][-1].keep_loss(loss, scale)
        done = self._done
        if not self._goes_backward(loss, scale):
            for (one,) in done:
                one.forget_graph()
            self._repeat(done)
        self.went_backward = True

    @_alone
    def end_micro_batch(self, learning_rate: float | None, last: bool) -> bool:
        """`Engine.step`."""
        if not self.went_backward:
            raise RuntimeError(
                "castor: step without backward; call engine.backward(loss) "
                "first, once for each micro batch"
            )
        self.went_backward = False
        self._begin_micro_batch()
        while last and self._micro_batch < self.micro_batches:
            self._inside(self._run.enter_backward, self._no_micro_batch, (), {})
            self._micro_batch += 1
        if self._micro_batch < self.micro_batches:
            return False
        if learning_rate is not None and not 0 <= learning_rate < float("inf"):
            raise ValueError(
                f"castor: learning_rate={learning_rate}: a finite number of 0 or more"
            )
        rate = -1.0
        if learning_rate is not None:
            rate = learning_rate
            note_rate_is_given()
        self._inside(None, self._run.step, (rate,), {})
        self._micro_batch = 0
        self._end_step()
        return True

    @_alone
    def abort(self) -> None:
        """`Engine.abort`."""
        if self.in_step:
            self._restore_buffers()
        self._end_step()
        self.went_backward = False
        self._passes = 0
        self._micro_batch = 0
        if not self._run.closed:
            self._run.abort()

    @_alone
    def rehearse(self, batch: Any) -> None:
        """A forward and a backward pass that leave no trace in the model."""
        with torch.enable_grad():
            self.backward(loss_of(call_with(self._forward, batch)), None)
        self.abort()

    def _forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.compute(self._model, args, kwargs)

    def _go_backward(self, loss: torch.Tensor, scale: float | None) -> None:
        if self.watch_backward is not None:
            self.watch_backward(self._micro_batch)
        with self._own_generator():
            self._inside(self._run.enter_backward, self._backward, (loss, scale), {})

    def _goes_backward(self, loss: torch.Tensor, scale: float | None) -> bool:
        """False: the step was undone, and `_repeat` can do it again."""
        done = self._done
        try:
            self._go_backward(loss, scale)
        except StepUndone:
            if self._has_evaluated or not all(
                len(passes) == 1 and passes[0].can_be_repeated() for passes in done
            ):
                raise
            return False
        return True

    def _begin_micro_batch(self) -> None:
        self._passes = 0
        self._micro_batch += 1
        self._done.append([])

    def _repeat(self, done: list[list[Pass]]) -> None:
        """Does a step that was undone again, up to the backward that it was in."""
        for i, (one,) in enumerate(done):
            if i > 0:
                self._begin_micro_batch()
            self._begin()
            assert one.loss is not None
            with self._own_generator():
                output = self._pass(one.function, one.args, one.kwargs)
            self._done[-1].append(one)
            loss = one.loss_in(output)
            del output
            self._go_backward(loss, one.loss.scale)

    def _end_step(self) -> None:
        self.in_step = self._has_evaluated = False
        self._done = [[]]
        self._before = {}

    def _restore_buffers(self) -> None:
        with torch.no_grad():
            for name, buffer in self._model.named_buffers():
                before = self._before.get(name)
                if before is not None and before.is_other(buffer):
                    buffer.copy_(before.values)

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
            # Autocast may be on around several steps, and has kept parameters as
            # they were.
            torch.clear_autocast_cache()
            inputs = (args, kwargs)
            self._run.announce(f"inputs {kind(inputs)}", extents(inputs))
            dtype = self._managed.dtype
            floats = dtype if dtype != torch.float32 else None
            buffers = self._buffer_versions()
            device = self._gpu.device if self._gpu is not None else None
            with meeting_at_each_token(self._generating, self._meet_for_a_token):
                result = function(
                    *copied(args, floats, device), **copied(kwargs, floats, device)
                )
            for name, version in self._buffer_versions().items():
                if buffers.get(name) == version:
                    continue
                raise RuntimeError(
                    f"castor: forward writes the buffer {name}, and each of "
                    f"the {self._managed.world_size} ranks would have another one; "
                    "train on one rank, or freeze what it counts"
                )
            return result

        return self._inside(self._run.enter_forward, forward, args, kwargs)

    def _backward(self, loss: torch.Tensor, scale: float | None) -> None:
        if scale is not None:
            loss = loss if scale == 1 else loss * scale
        else:
            parts = self.micro_batches * self._managed.world_size
            loss = loss if parts == 1 else loss / parts
        if self._managed.dtype == torch.float16:
            # In fp32, where it has no overflow.
            loss = loss.float() * self._run.loss_scale
        torch.autograd.backward(loss)
        self._run.end_backward()

    def _buffer_versions(self) -> dict[str, tuple[int, int]]:
        """What tells that a buffer was written; nothing on one rank."""
        if self._managed.world_size == 1:
            return {}
        return {name: (id(b), b._version) for name, b in self._model.named_buffers()}

    def _meet_for_a_token(self) -> None:
        self._run.announce("whether all sequences have ended", [])

    def _no_micro_batch(self) -> None:
        self._run.announce("no micro batch", [])
        self._run.end_backward()

    def _evaluate(
        self, function: Callable[..., _Result], args: Any, kwargs: Any
    ) -> _Result:
        with torch.no_grad(), drawing_undone(self._gpu):
            self._inside(None, self._run.begin, (False,), {})
            result = self._pass(function, args, kwargs)
            self._inside(None, self._run.end_evaluation, (), {})
        return result

    def _begin(self) -> None:
        if self.in_step:
            return
        self._managed.check_parameters()
        self._kept_bytes = self._run.claimed_bytes - self._buffer_bytes
        self._inside(None, self._run.begin, (True,), {})
        if self._managed.world_size == 1:
            self._before = {
                name: _Buffer(b, b._version, b.detach().to("cpu", copy=True))
                for name, b in self._model.named_buffers()
            }
        self._step_thread = threading.current_thread()
        self.in_step = True

    def _own_generator(self) -> AbstractContextManager[None]:
        micro_batch = self._micro_batch * self._managed.world_size + self._managed.rank
        seed = generator_seed(
            self._run.seed, self._run.steps + 1, micro_batch, self._passes
        )
        self._passes += 1
        return drawing_from(seed, self._gpu)

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
            at_hand, self._at_hand = self._at_hand, None
            self.abort()
            refusal = self._run.take_refusal()
            undone = self._run.take_again()
            not_finite = self._run.take_not_finite()
            if refusal is None and not undone and not not_finite:
                raise
            what = first_line(error)
        # Outside the handler, so that the error does not keep the failed pass's
        # tensors.
        if refusal is not None:
            raise self._refused(refusal, at_hand)
        raise StepUndone(what) if undone else NonFiniteError(what)

    def _refused(
        self,
        refusal: Refusal,
        at_hand: tuple[Callable[..., Any], Any, Any] | None,
    ) -> Refused:
        """The error of a pass that takes too much, with what would do."""
        if at_hand is None:
            return Refused(refusal)
        function, args, kwargs = at_hand
        budget = None
        # A function of the program's own may do more than to compute.
        if function is self._model and not refusal.exact:
            budget = foresee_budget(self._managed, args, kwargs)
        return Refused(refusal, budget, self._kept_bytes)
