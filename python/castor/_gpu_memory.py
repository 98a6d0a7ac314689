"""What torch.cuda tells of memory while Castor's allocator stands in the place of
PyTorch's, which alone PyTorch can ask."""

from __future__ import annotations

import json
import warnings
import weakref
from typing import Any, NoReturn, Protocol

import torch

# Much of it has no annotations.
_memory: Any = torch.cuda.memory

# What `memory_stats` has; all but bytes are counts.
_BYTES = (
    "allocated_bytes", "active_bytes", "requested_bytes", "reserved_bytes",
    "inactive_split_bytes",
)
_COUNTS = ("allocation", "active", "segment", "inactive_split")
_OVERSIZE = ("oversize_allocations", "oversize_segments")
_POOLS = ("all", "large_pool", "small_pool")
_NOTHING = {"current": 0, "peak": 0, "allocated": 0, "freed": 0}
_RESETS = (
    "reset_peak_memory_stats", "reset_accumulated_memory_stats",
    "reset_max_memory_allocated", "reset_max_memory_cached",
)


class _Run(Protocol):
    @property
    def closed(self) -> bool: ...
    @property
    def claimed_bytes(self) -> int: ...
    def summary(self) -> str: ...


_runs: weakref.WeakSet[Any] = weakref.WeakSet()
_told: set[str] = set()


def show_in_torch_cuda(run: _Run) -> None:
    """From now on torch.cuda's figures have this run's, until it is closed:
    memory_allocated what lies beside parameters, max_memory_allocated the most
    that the device held with them, memory_reserved the budget. The first call
    puts functions of ours in the places of some of torch.cuda.memory."""
    _runs.add(run)
    if _memory.memory_stats_as_nested_dict is _stats:
        return
    _memory.memory_stats_as_nested_dict = _stats
    for name in _RESETS:
        _put(name, _no_reset(name))
    _put("memory_snapshot", _no_snapshot)


def is_last_shown(run: _Run) -> bool:
    """Whether no other run whose figures torch.cuda has is still open."""
    return all(other is run or other.closed for other in _runs)


def _put(name: str, function: Any) -> None:
    for module in (_memory, torch.cuda):
        setattr(module, name, function)


def _stats(device: Any = None) -> dict[str, Any]:
    figures: dict[str, Any] = {
        name: {pool: dict(_NOTHING) for pool in _POOLS} for name in _BYTES + _COUNTS
    }
    figures.update({name: dict(_NOTHING) for name in _OVERSIZE})
    figures.update(num_alloc_retries=0, num_ooms=0)
    for run in _runs:
        if run.closed:
            continue
        summary = json.loads(run.summary())
        budget, peak = summary["device_budget_bytes"], summary["device_peak_bytes"]
        for name in ("allocated_bytes", "active_bytes", "requested_bytes"):
            figures[name]["all"]["current"] += run.claimed_bytes
            figures[name]["all"]["peak"] += peak
        for key in ("current", "peak"):
            figures["reserved_bytes"]["all"][key] += budget
    return figures


def _no_reset(name: str) -> Any:
    def reset(device: Any = None) -> None:
        if name in _told:
            return
        _told.add(name)
        warnings.warn(
            f"castor: torch.cuda.{name} does nothing: the peak that torch.cuda tells "
            'is the engine\'s, engine.summary()["device_peak_bytes"]',
            stacklevel=2,
        )

    return reset


def _no_snapshot(*_: Any, **__: Any) -> NoReturn:
    raise RuntimeError(
        "castor: torch.cuda.memory_snapshot is PyTorch's allocator's, in whose place "
        "Castor's is: engine.trace(path) has all bytes of the device"
    )
