"""Checkpoints of an engine: what of it is PyTorch's, and the calls."""

from __future__ import annotations

import base64
import json
import os
import warnings
from typing import Any

import torch

from castor._managed import Managed
from castor._ranks import on_all_ranks
from castor._refused import CheckpointError

# What the part of a checkpoint that only PyTorch's engine reads is called.
_KIND = "pytorch-1"


def _text_of_bytes(tensor: torch.Tensor) -> str:
    data = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    return base64.b64encode(data.numpy().tobytes()).decode("ascii")


def _bytes_of_text(text: str) -> torch.Tensor:
    data = bytearray(base64.b64decode(text, validate=True))
    return torch.frombuffer(data, dtype=torch.uint8) if data else torch.empty(
        0, dtype=torch.uint8
    )


def _buffers(managed: Managed) -> dict[str, torch.Tensor]:
    """Those that the model's state has, by name."""
    buffers = {}
    for name, value in managed.model.state_dict(keep_vars=True).items():
        if isinstance(value, torch.nn.Parameter):
            if value.numel() == 0 or any(value is p for p in managed.parameters):
                continue
        if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
            raise CheckpointError(
                f"castor: {name} of the model's state is no plain tensor, and "
                "cannot be in a checkpoint: keep it in client_state"
            )
        buffers[name] = value
    return buffers


def _pack(managed: Managed, client_state: Any) -> dict[str, Any]:
    try:
        json.dumps(client_state)
    except (TypeError, ValueError) as error:
        raise CheckpointError(
            f"castor: client_state cannot be written as JSON: {error}"
        ) from None
    return {
        "kind": _KIND,
        "torch": torch.__version__,
        "generator": _text_of_bytes(torch.get_rng_state()),
        "buffers": {
            name: {
                "dtype": str(buffer.dtype).removeprefix("torch."),
                "shape": list(buffer.shape),
                "data": _text_of_bytes(buffer) if managed.rank == 0 else "",
            }
            for name, buffer in _buffers(managed).items()
        },
        "client_state": client_state,
    }


class _State:
    """What `_pack` made, checked against the engine's model."""

    def __init__(self, managed: Managed, path: str, text: str) -> None:
        self._path = path
        try:
            state = json.loads(text)
        except ValueError:
            state = None
        if not isinstance(state, dict) or state.get("kind") != _KIND:
            self._fail("a program other than this version of castor wrote it")
        try:
            self.client_state = state["client_state"]
            # Several ranks have kept a state each.
            generators = state.get("generators", [state["generator"]])
            same_ranks = len(generators) == managed.world_size
            generator = generators[managed.rank if same_ranks else 0]
            self.generator = _bytes_of_text(generator)
            self.notes = ""
            if not same_ranks and any(g != generator for g in generators):
                self.notes = (
                    f"{path} is of {len(generators)} ranks, whose generators of "
                    f"random numbers were in different states; all "
                    f"{managed.world_size} ranks go on with rank 0's"
                )
            buffers = {
                name: _bytes_of_text(buffer["data"])
                .view(getattr(torch, buffer["dtype"]))
                .reshape(buffer["shape"])
                for name, buffer in state["buffers"].items()
            }
        except (
            AttributeError, IndexError, KeyError, TypeError, ValueError, RuntimeError
        ):
            self._fail("what PyTorch keeps in it makes no sense")
        if self.generator.shape != torch.get_rng_state().shape:
            self._fail("its state of PyTorch's generator has another size")
        own = _buffers(managed)
        for name in sorted(own.keys() ^ buffers.keys()):
            self._fail(
                f"it is of another model: buffer {name} is "
                + ("missing" if name in own else "not the model's")
            )
        self._pairs = [(own[name], buffers[name]) for name in own]
        for name, buffer in own.items():
            then = buffers[name]
            if then.shape != buffer.shape or then.dtype != buffer.dtype:
                self._fail(
                    f"it is of another model: buffer {name} is {then.dtype} "
                    f"{list(then.shape)}, the model's {buffer.dtype} "
                    f"{list(buffer.shape)}"
                )

    def _fail(self, why: str) -> None:
        raise CheckpointError(f"castor: {self._path}: {why}")

    def apply(self) -> None:
        with torch.no_grad():
            for own, then in self._pairs:
                own.copy_(then)
        torch.set_rng_state(self.generator)


def _failed(error: RuntimeError) -> CheckpointError:
    lines = str(error).splitlines() or [type(error).__name__]
    return CheckpointError(f"castor: {lines[0].removeprefix('castor: ')}")


def _tell(notes: str) -> None:
    for line in filter(None, notes.splitlines()):
        warnings.warn(f"castor: {line}", stacklevel=4)


def save(
    managed: Managed,
    directory: str | os.PathLike[str],
    client_state: Any,
    keep: int | None,
    keep_aside: int | None,
    lock: bool,
) -> str:
    state: dict[str, Any] = {}

    def pack() -> str:
        for name, number in (("keep", keep), ("keep_aside", keep_aside)):
            if number is not None and number < 1:
                raise ValueError(
                    f"castor: {name}={number}: at least 1, or None for all"
                )
        state.update(_pack(managed, client_state))
        return str(state["generator"])

    try:
        generators = on_all_ranks(managed, "what a checkpoint is to hold", pack)
        if managed.world_size > 1:
            state["generators"] = generators
        saved = managed.run.save_checkpoint(
            os.fspath(directory),
            json.dumps(state) if managed.rank == 0 else "",
            keep or 0,
            keep_aside or 0,
            lock,
        )
    except CheckpointError:
        raise
    except RuntimeError as error:
        raise _failed(error) from None
    _tell(saved.notes)
    return saved.path


def load(
    managed: Managed, path: str | os.PathLike[str], changed: bool
) -> tuple[str, Any]:
    states: list[_State] = []

    def check() -> str:
        if found.text is not None:
            states.append(_State(managed, found.path, found.text))
        return ""

    try:
        found = managed.run.find_checkpoint(os.fspath(path), changed)
        on_all_ranks(managed, "what a checkpoint holds", check)
        managed.run.load_checkpoint()
    except CheckpointError:
        raise
    except RuntimeError as error:
        raise _failed(error) from None
    for state in states:
        state.apply()
        _tell(state.notes)
    _tell(found.notes)
    for line in filter(None, found.differences.splitlines()):
        warnings.warn(f"castor: other settings than until then: {line}", stacklevel=3)
    return found.path, states[0].client_state if states else None
