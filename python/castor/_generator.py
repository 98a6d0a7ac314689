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
def drawing_from(seed: int) -> Iterator[None]:
    """Inside, PyTorch's generator begins at `seed`; after it, the generator is
    as before."""
    before = torch.get_rng_state()
    torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        torch.set_rng_state(before)


@contextlib.contextmanager
def drawing_undone() -> Iterator[None]:
    """Puts PyTorch's generator back where the engine gives up what is inside."""
    before = torch.get_rng_state()
    try:
        yield
    except (Refused, StepUndone):
        torch.set_rng_state(before)
        raise
