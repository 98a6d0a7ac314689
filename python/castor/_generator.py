"""What PyTorch's generator of random numbers gives inside an engine.

Dropout in a training step does not draw from the process's generator, but from
one that is seeded anew for each pass, by `generator_seed`. So what it draws
depends on neither ranks nor placement, a step that was undone or resumed draws
the same again, and what the process draws elsewhere (a data loader's order, an
augmentation) is as if the engine were not there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from castor._gpu import Gpu
from castor._library import shim
from castor._refused import Refused, StepUndone


def generator_seed(seed: int, step: int, micro_batch: int, call: int = 0) -> int:
    """The seed that PyTorch's generator has in a pass of a training step.

    `torch.manual_seed(castor.generator_seed(...))` before the same forward pass
    of a plain model makes it draw the same.

    Args:
        seed: the configuration's `seed` (default 1234).
        step: the step's number, from 1: `engine.global_steps + 1`.
        micro_batch: of the step's micro batches over all ranks, from 0.
        call: of the passes of this micro batch, from 0: forward passes in the
            order of their calls, and last the backward pass. (What
            checkpointing computes again there draws as in its forward pass.)
    """
    return shim.generator_seed(seed, step, micro_batch, call)


@contextlib.contextmanager
def drawing_from(seed: int, gpu: Gpu | None = None) -> Iterator[None]:
    """Inside, PyTorch's generators, that of the CPU and that of `gpu`, begin at
    `seed`; after it, they are as before."""
    before = _states(gpu)
    for generator, _ in before:
        generator.manual_seed(seed)
    try:
        yield
    finally:
        _put_back(before)


@contextlib.contextmanager
def drawing_undone(gpu: Gpu | None = None) -> Iterator[None]:
    """Puts PyTorch's generators back where the engine gives up what is inside."""
    before = _states(gpu)
    try:
        yield
    except (Refused, StepUndone):
        _put_back(before)
        raise


def _states(gpu: Gpu | None) -> list[tuple[torch.Generator, torch.Tensor]]:
    generators = [torch.default_generator] + ([gpu.generator] if gpu else [])
    return [(generator, generator.get_state()) for generator in generators]


def _put_back(states: list[tuple[torch.Generator, torch.Tensor]]) -> None:
    for generator, state in states:
        generator.set_state(state)
