"""The ranks of a run make a model together, of which each keeps a share.

All ranks run the same program. A larger parameter belongs to one of them, its
owner. It is whole on every rank while it is made, which all do alike, so that
all draw the same numbers; then it is put away: its owner keeps the values, the
others free them. An operator that reads it later makes it whole again, by what
the owner sends. So at most one larger parameter is whole on a rank, beside
those that an operator is at, and its own.

                    registered        another is made      an operator reads it
    owner           [ values ]        [ values ]           [ values ]  -- sends
    other ranks     [ values ]        ( freed )            [ values ]  <- gets

Who owns what, and what is whole, follows from the program alone, and is the same
on all ranks.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
import weakref
import zlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_module_registration_hook
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary

from castor._library import shim
from castor._operators import reads_nothing, storage_of

# Smaller parameters stay whole everywhere.
LEAST_BYTES = 4096

# Operators that write all of their first argument and do not read it.
_OVERWRITING = {
    f"aten::{name}_"
    for name in (
        "bernoulli", "cauchy", "copy", "exponential", "fill", "geometric",
        "log_normal", "normal", "random", "uniform", "zero",
    )
}
# Operators whose first argument is the shape of the tensor that they make.
_MAKING = {
    f"aten::{name}" for name in ("empty", "full", "ones", "rand", "randn", "zeros")
}
_COPYING = {"aten::_to_copy", "aten::clone"}

# The rank that keeps a parameter's values.
_owners: Any = WeakIdKeyDictionary()


def owner_of(parameter: nn.Parameter) -> int | None:
    """The rank that keeps the values; None where every rank has them."""
    owner: int | None = _owners.get(parameter)
    return owner


class _Shared:
    parameter: weakref.ref[nn.Parameter]

    def __init__(
        self, parameter: nn.Parameter, number: int, name: str, owner: int
    ) -> None:
        self.parameter = weakref.ref(parameter)
        self.number = number  # in the order in which they were made
        self.name = name
        self.owner = owner
        self.bytes = parameter.nbytes
        self.storage = storage_of(parameter)


class SharedInit(TorchDispatchMode):
    """Shares what is made between `open` and `close`, by the thread that opens.

    Raises:
        RuntimeError: in an operator, or from `close`: a rank is gone, or does
            something else.
    """

    def __init__(self, meeting: shim.Meeting) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._meeting = meeting
        self._thread = threading.get_ident()
        self._made = 0
        self._kept_bytes = [0] * meeting.world_size
        self._shared: dict[int, _Shared] = {}  # by storage
        self._whole: dict[int, _Shared] = {}  # of them, the last used at the end
        self._close = contextlib.ExitStack()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Else the first operator imports torch.compile's modules: 75 MB.
        return False

    def open(self) -> None:
        """From now on, until `close`."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._same_draws())
            stack.enter_context(_one_by_one())
            hook = register_module_module_registration_hook(self._module_registered)
            stack.callback(hook.remove)
            self._close = stack.pop_all()
        self.__enter__()  # type: ignore[no-untyped-call]

    def close(self, failure: BaseException | None = None) -> None:
        """Puts all that is shared away.

        Args:
            failure: what this rank gives up for; the others are told.

        Raises:
            RuntimeError: the ranks did not do the same.
        """
        self.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        told = None if failure is None else f"castor.ZeroInit: {failure!r}"
        try:
            if failure is None:
                for shared in list(self._shared.values()):
                    self._put_away(shared)
                drawn = zlib.crc32(torch.get_rng_state().numpy().tobytes())
                self._meeting.broadcast(
                    f"castor.ZeroInit's end, random numbers drawn up to {drawn:08x}",
                    0,
                    torch.zeros(1),
                )
        except BaseException as error:
            told = f"castor.ZeroInit: {error!r}"
            raise
        finally:
            self._close.close()
            self._meeting.end(told)
            self._shared.clear()
            self._whole.clear()

    def registered(
        self, module: nn.Module, name: str, parameter: nn.Parameter | None
    ) -> None:
        """A module is about to have this parameter."""
        if threading.get_ident() != self._thread:
            return  # it is shared when the module is a part of another one
        old = module._parameters.get(name)
        if old is not None and old is not parameter:
            replaced = self._shared.get(_plain_storage(old))
            if replaced is not None:  # as by one to which it is tied
                self._kept_bytes[replaced.owner] -= replaced.bytes
                replaced.bytes = 0
        if parameter is not None:
            self._share(parameter, f"{type(module).__name__}.{name}")

    def _module_registered(
        self, parent: nn.Module, name: str, child: nn.Module | None
    ) -> None:
        # Copies of modules have parameters that nobody registered.
        if child is None or threading.get_ident() != self._thread:
            return
        for module in child.modules():
            for of_module, parameter in module._parameters.items():
                if parameter is not None and parameter not in _owners:
                    self._share(parameter, f"{type(module).__name__}.{of_module}")

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if not reads_nothing(func):
            self._make_whole(func._schema.name, args, kwargs)
        return func(*args, **kwargs)

    def _make_whole(self, op: str, args: Any, kwargs: Any) -> None:
        """What an operator is at; others are put away where it makes a tensor."""
        storages = [
            _plain_storage(leaf)
            for leaf in tree_leaves((args, kwargs))
            if isinstance(leaf, torch.Tensor)
        ]
        used = {s: self._shared[s] for s in storages if s in self._shared}
        if used or _makes_large(op, args, kwargs):
            self._put_others_away(used)
        for storage, shared in used.items():
            if self._whole.pop(storage, None) is None:
                overwritten = (
                    op in _OVERWRITING
                    and storages.count(storage) == 1
                    and storages[0] == storage
                    and args[0].nbytes == args[0].untyped_storage().nbytes()
                )
                self._bring_back(shared, op, overwritten)
            self._whole[storage] = shared

    def _share(self, parameter: nn.Parameter, name: str) -> None:
        storage = _plain_storage(parameter)
        if storage == 0 or storage in self._shared:
            return
        if (
            parameter.device.type != "cpu"
            or parameter.nbytes < LEAST_BYTES
            or parameter.untyped_storage().nbytes() != parameter.nbytes
            or shim.is_managed(parameter)
        ):
            return
        owner = self._kept_bytes.index(min(self._kept_bytes))
        self._kept_bytes[owner] += parameter.nbytes
        shared = _Shared(parameter, self._made, name, owner)
        self._made += 1
        _owners[parameter] = owner
        self._note_storage(shared, parameter)
        self._whole[shared.storage] = shared
        self._put_others_away({shared.storage: shared})

    def _note_storage(self, shared: _Shared, parameter: nn.Parameter) -> None:
        storage = shared.storage = storage_of(parameter)
        self._shared[storage] = shared
        mine = weakref.ref(self)

        def forget(reference: Any) -> None:
            sharing = mine()
            last = sharing._shared.get(storage) if sharing is not None else None
            if sharing is not None and last is not None:
                if last.parameter is reference:
                    del sharing._shared[storage]
                    sharing._whole.pop(storage, None)

        # Another storage may have its number then.
        shared.parameter = weakref.ref(parameter, forget)

    def _put_others_away(self, used: dict[int, _Shared]) -> None:
        for storage, shared in list(self._whole.items()):
            if storage not in used:
                self._put_away(shared)

    def _put_away(self, shared: _Shared) -> None:
        before = shared.storage
        whole = self._whole.pop(before, None) is not None
        parameter = shared.parameter()
        if parameter is None:
            return
        if storage_of(parameter) != before:  # given to it by .data, as by .to()
            self._shared.pop(before, None)
            if (
                parameter.device.type != "cpu"
                or parameter.untyped_storage().nbytes() != parameter.nbytes
            ):
                return
            self._note_storage(shared, parameter)
            whole = True
        if whole:
            shim.put_away(
                parameter,
                shared.owner == self._meeting.rank,
                f"castor: {shared.name} is shared among the ranks until "
                "castor.initialize: read or write it inside castor.ZeroInit, in "
                "the thread that opened it",
            )

    def _bring_back(self, shared: _Shared, op: str, overwritten: bool) -> None:
        parameter = shared.parameter()
        assert parameter is not None  # or it had been forgotten
        shim.bring_back(parameter)
        if not overwritten:
            self._meeting.broadcast(
                f"{op} of {shared.name}, number {shared.number}, in castor.ZeroInit",
                shared.owner,
                parameter,
            )

    @contextlib.contextmanager
    def _same_draws(self) -> Iterator[None]:
        """All ranks draw rank 0's random numbers. One whose own generator stood
        elsewhere goes on with that afterwards."""
        own = torch.get_rng_state()
        state = own.clone()
        self._meeting.broadcast("castor.ZeroInit's begin", 0, state)
        torch.set_rng_state(state)
        yield
        if not torch.equal(own, state):
            torch.set_rng_state(own)


@contextlib.contextmanager
def _one_by_one() -> Iterator[None]:
    """from_pretrained reads a tensor when it needs it, and no others ahead."""
    name = "HF_DEACTIVATE_ASYNC_LOAD"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _plain_storage(tensor: torch.Tensor) -> int:
    """Its storage; 0 of a tensor whose bytes are not in one alone."""
    if type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        return 0
    if nn.parameter.is_lazy(tensor):
        return 0
    return storage_of(tensor)


def _makes_large(op: str, args: Any, kwargs: Any) -> bool:
    if op in _COPYING:
        return bool(args[0].nbytes >= LEAST_BYTES)
    if op not in _MAKING or torch.device(kwargs.get("device") or "cpu").type != "cpu":
        return False
    dtype = kwargs.get("dtype") or torch.get_default_dtype()
    return bool(math.prod(args[0]) * dtype.itemsize >= LEAST_BYTES)
