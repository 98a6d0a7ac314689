"""What a step will take, before there is an engine."""

from __future__ import annotations

import contextlib
import json
import logging
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from castor._compiled import without_compiling
from castor._inputs import call_with, copied, loss_of
from castor._library import shim
from castor._managed import Managed, call_plainly
from castor._operators import reads_nothing, storage_of
from castor._zero_init import Config, text_of

_WHO = "castor.plan"


class Plan:
    """What a step of a model will take of the device's memory.

    Operators were not run, or not with managed memory: what they take inside,
    and give back before they end, was not seen. So `peak_bytes` is an estimate,
    and with it are `smallest_device_budget_bytes`, `device_peak_bytes` and
    `fits`. That of parameters and optimizer states is exact.

    Attributes:
        fits: whether the configuration's budget does.
        smallest_device_budget_bytes: the least that would do.
        device_peak_bytes: what a step takes of the budget; None if none fits.
        operator: what takes most beside the parameters that it reads.
        peak_bytes: that most.
        resident_bytes: the parameters that must be there, in their chunks.
        estimated: True.
        traced_on: "fake tensors", or "real tensors" where the model does not
            run on fake ones.
        note: why it does not; empty where it does.
    """

    estimated = True

    def __init__(self, foreseen: dict[str, Any], note: str) -> None:
        self._foreseen = foreseen
        self.note = note
        self.traced_on = "real tensors" if note else "fake tensors"
        self.fits: bool = foreseen["fits"]
        self.smallest_device_budget_bytes: int = foreseen[
            "smallest_device_budget_bytes"
        ]
        self.device_peak_bytes: int | None = foreseen.get("device_peak_bytes")
        self.operator: str = foreseen["operator"]
        self.peak_bytes: int = foreseen["peak_bytes"]
        self.resident_bytes: int = foreseen["resident_bytes"]

    def summary(self) -> dict[str, Any]:
        """Keys of `castor train --summary`, and this object's own."""
        return {
            **self._foreseen,
            "estimated": self.estimated,
            "traced_on": self.traced_on,
            "note": self.note,
        }

    def __str__(self) -> str:
        return "\n".join(
            f"{key}: {json.dumps(value) if not isinstance(value, str) else value}"
            for key, value in self.summary().items()
            if value != ""
        )


def plan(
    model: nn.Module | Callable[[], nn.Module],
    config: Config | None = None,
    sample_batch: Any = None,
    weight_decay: Callable[[str, nn.Parameter], float | None] | None = None,
    world_size: int | None = None,
) -> Plan:
    """Foresees what a step takes, without an engine and without its memory.

    A forward and a backward pass are made on fake tensors, which have shapes
    and no bytes. A model that does not run on them, since it asks for values,
    makes one real pass with plain PyTorch, on copies of its buffers; in bf16 on
    a copy of its parameters, too. The generator of random numbers is as before.

    Args:
        model: as for `initialize`, or on the meta device; or what makes it, a
            function without arguments. It is called for fake tensors, so that a
            model larger than the host's memory can be asked about.
        config: as for `initialize`.
        sample_batch: what a micro batch looks like, as for `initialize`.
        weight_decay: as for `initialize`.
        world_size: how many ranks share the model, of each of which the plan
            is; by default as many as this process was started with. Others need
            not call this.

    Raises:
        ValueError: the configuration is wrong, or the host's memory too small
            for parameters and optimizer states.
    """
    ranks = 0 if world_size is None else world_size
    if world_size is not None and world_size < 1:
        raise ValueError(f"{_WHO}: world_size={world_size}: at least 1")
    if sample_batch is None:
        raise ValueError(f"{_WHO}: no sample_batch; give one micro batch's arguments")
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    if not isinstance(model, nn.Module):
        make = model
        with mode:
            model = make()
        if not isinstance(model, nn.Module):
            raise ValueError(f"{_WHO}: the function gives no torch.nn.Module")
    text = text_of(config, _WHO, model)
    dtype = torch.float32
    config_keys = json.loads(shim.plain_config(text))
    for key, other in (("bf16", torch.bfloat16), ("fp16", torch.float16)):
        if (config_keys.get(key) or {}).get("enabled"):
            dtype = other
    described = []
    for name, parameter in _parameters(model).items():
        decay = weight_decay(name, parameter) if weight_decay else None
        described.append(
            (
                name,
                list(parameter.shape),
                parameter.requires_grad,
                -1.0 if decay is None else decay,
            )
        )
    if not described:
        raise ValueError(f"{_WHO}: the model has no parameters; give it one that has")
    shim.foresee(text, described, "[]", ranks)  # says at once what is wrong
    note = ""

    def forward(batch: Any) -> Any:
        return call_with(model, batch)

    try:
        uses = _Tracing(model, dtype, mode).micro_batch(forward, sample_batch)
    except Exception as error:
        # Whatever it is, the real pass either has it as well, and raises it, or
        # it comes from the fake tensors.
        note = (str(error).splitlines() or [type(error).__name__])[0]
        note = f"{type(error).__name__}: {note}"
    if note:
        if any(_is_fake(p) for p in model.parameters()):
            raise ValueError(
                f"{_WHO}: the model does not run on fake tensors ({note}); give "
                "one with values, so that it can make a real pass"
            )
        uses = _Tracing(model, dtype, None).micro_batch(forward, sample_batch)
    foreseen = shim.foresee(text, described, json.dumps(uses), ranks)
    return Plan(json.loads(foreseen), note)


def foresee_budget(managed: Managed, args: Any, kwargs: Any) -> int | None:
    """The smallest device budget of a step of such a forward pass of the model
    and its backward, found on fake tensors. None: it does not run on them.

    Between passes: it puts other tensors in the places of parameters and
    buffers meanwhile. What the model keeps in attributes of its modules is put
    back."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    modules = list(managed.model.modules())
    attributes = [dict(module.__dict__) for module in modules]

    def forward(batch: Any) -> Any:
        output = call_plainly(managed.model, *batch[0], **batch[1])
        try:
            return loss_of(output)
        except ValueError:  # the loss is computed elsewhere
            leaves = [t for t in tree_leaves(output) if isinstance(t, torch.Tensor)]
            return sum(t.float().sum() for t in leaves if t.requires_grad)

    try:
        uses = _Tracing(managed.model, managed.dtype, mode).micro_batch(
            forward, (args, kwargs)
        )
        foreseen = json.loads(managed.foresee(json.dumps(uses)))
    except Exception:
        return None  # what is known without it was told
    finally:
        for module, before in zip(modules, attributes):
            module.__dict__.clear()
            module.__dict__.update(before)
    budget: int = foreseen["smallest_device_budget_bytes"]
    return budget


def _is_fake(tensor: torch.Tensor) -> bool:
    return tensor.is_meta or isinstance(
        tensor, torch._subclasses.fake_tensor.FakeTensor
    )


def _parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    return {n: p for n, p in model.named_parameters() if p.numel() > 0}


def _claim_bytes(size_bytes: int) -> int:
    """What a tensor of so many bytes takes, as shim/allocator.h counts it."""
    return 64 + (size_bytes + 63) // 64 * 64 if size_bytes else 0


class _Tracing:
    """One micro batch: which parameters are read when, and what lives."""

    def __init__(
        self, model: nn.Module, dtype: torch.dtype, mode: FakeTensorMode | None
    ) -> None:
        self._model = model
        self._dtype = dtype
        self._mode = mode
        self._uses: list[dict[str, Any]] = []
        self._number_of: dict[int, int] = {}  # by storage
        self._stand_ins: list[torch.Tensor] = []
        self._live: dict[int, int] = {}  # by storage: bytes
        self._live_bytes = 0
        self._present: frozenset[int] = frozenset()
        self._backward = False

    def micro_batch(
        self, forward: Callable[[Any], Any], batch: Any
    ) -> list[dict[str, Any]]:
        """The uses, as castor_foresee wants them."""
        with contextlib.ExitStack() as stack:
            if self._mode is not None:
                stack.enter_context(self._mode)
                # It tells of each failure, which the caller is told of, too.
                logger = logging.getLogger("torch._subclasses.fake_tensor")
                stack.callback(logger.setLevel, logger.level)
                logger.setLevel(logging.CRITICAL)
            stack.enter_context(torch.random.fork_rng(devices=[]))
            stack.enter_context(self._standing_in())
            stack.enter_context(torch.enable_grad())
            stack.enter_context(without_compiling(self._model))
            stack.enter_context(_Watching(self))
            self._begin_use("inputs", frozenset())
            for module in self._model.modules():
                stack.callback(setattr, module, "training", module.training)
            if not self._model.training:
                self._model.train()
            floats = self._dtype if self._dtype != torch.float32 else None
            loss = loss_of(forward(copied(_faked(batch, self._mode), floats)))
            self._backward = True
            self._present = frozenset()
            torch.autograd.backward(loss)
            del loss
        return self._uses

    @contextlib.contextmanager
    def _standing_in(self) -> Iterator[None]:
        """Others are in the places of the model's parameters and buffers."""
        before: list[tuple[dict[str, Any], str, Any]] = []
        made: dict[int, Any] = {}
        numbers = {id(p): i for i, p in enumerate(_parameters(self._model).values())}
        try:
            for module in self._model.modules():
                for name, old in list(module._parameters.items()):
                    if old is None:
                        continue
                    if id(old) not in made:
                        made[id(old)] = self._parameter_like(old, numbers.get(id(old)))
                    before.append((module._parameters, name, old))
                    module._parameters[name] = made[id(old)]
                for name, buffer in list(module._buffers.items()):
                    if buffer is None:
                        continue
                    if id(buffer) not in made:
                        made[id(buffer)] = self._buffer_like(buffer)
                    before.append((module._buffers, name, buffer))
                    module._buffers[name] = made[id(buffer)]
            yield
        finally:
            for table, name, old in reversed(before):
                table[name] = old

    def _parameter_like(self, old: nn.Parameter, number: int | None) -> nn.Parameter:
        values = (
            torch.empty(old.shape, dtype=self._dtype)
            if self._mode is not None
            else old.detach().to(self._dtype)
        )
        new = nn.Parameter(values, requires_grad=old.requires_grad)
        self._stand_ins.append(new)
        if number is not None:
            self._number_of[storage_of(new)] = number
        if new.requires_grad:
            me = weakref.ref(self)

            def hand_in(parameter: torch.Tensor) -> None:
                tracing = me()
                if tracing is not None and number is not None:
                    tracing._uses[-1]["gradients"].append(number)
                parameter.grad = None

            new.register_post_accumulate_grad_hook(  # type: ignore[no-untyped-call]
                hand_in
            )
        return new

    def _buffer_like(self, old: torch.Tensor) -> torch.Tensor:
        new = (
            torch.empty_strided(old.shape, old.stride(), dtype=old.dtype)
            if self._mode is not None and _is_fake(old)
            else _faked(old, self._mode).clone()
        )
        self._stand_ins.append(new)
        self._count(new)
        return new

    def saw(self, op: str, read: list[torch.Tensor]) -> None:
        """Before an operator that reads these."""
        storages = (storage_of(t) for t in read)
        wanted = frozenset(
            self._number_of[s] for s in storages if s in self._number_of
        )
        if not wanted <= self._present:
            self._begin_use(op, wanted)

    def made(self, results: list[torch.Tensor]) -> None:
        """After an operator."""
        for tensor in results:
            self._count(tensor)
        if self._uses:
            use = self._uses[-1]
            use["peak_bytes"] = max(use["peak_bytes"], self._live_bytes)

    def _begin_use(self, op: str, wanted: frozenset[int]) -> None:
        self._present = wanted
        self._uses.append(
            {
                "op": op,
                "backward": self._backward,
                "parameters": sorted(wanted),
                "peak_bytes": self._live_bytes,
                "gradients": [],
            }
        )

    def _count(self, tensor: torch.Tensor) -> None:
        if tensor.layout != torch.strided:
            return
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._live or key in self._number_of:
            return
        size = _claim_bytes(storage.nbytes())
        self._live[key] = size
        self._live_bytes += size
        weakref.finalize(storage, self._forget, key).atexit = False

    def _forget(self, key: int) -> None:
        self._live_bytes -= self._live.pop(key, 0)


def _faked(value: Any, mode: FakeTensorMode | None) -> Any:
    """`value` with fake tensors in the places of real ones, on the CPU, where the
    stand-ins of parameters are."""
    if mode is None:
        return value
    if isinstance(value, torch.Tensor):
        if value.device.type not in ("cpu", "meta"):
            with mode:
                return torch.empty_strided(
                    value.shape,
                    value.stride(),
                    dtype=value.dtype,
                    requires_grad=value.requires_grad,
                )
        return value if _is_fake(value) else mode.from_tensor(value, static_shapes=True)
    if isinstance(value, Mapping):
        return {key: _faked(item, mode) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_faked(item, mode) for item in value)
    return value


class _Watching(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Tells a _Tracing of each operator of PyTorch."""

    def __init__(self, tracing: _Tracing) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._tracing = tracing

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if not reads_nothing(func):
            everything = tree_leaves((args, kwargs))
            self._tracing.saw(
                func._schema.name,
                [t for t in everything if isinstance(t, torch.Tensor)],
            )
            del everything
        results = func(*args, **kwargs)
        self._tracing.made(
            [t for t in tree_leaves(results) if isinstance(t, torch.Tensor)]
        )
        return results
