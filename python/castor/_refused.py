"""The errors of a step that cannot go on, and of checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from castor._shim import Refusal


def first_line(error: BaseException) -> str:
    """What it says, or its type's name."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def each_line(error: BaseException, who: str) -> str:
    """What it says of a configuration, which is an error a line, each behind
    `who`. PyTorch may have added where in C++ it was raised."""
    lines: list[str] = []
    for line in str(error).splitlines():
        if line.startswith("Exception raised from "):
            break
        lines.append(f"{who}: {line}")
    return "\n".join(lines)


# What earlier calls gave is spoken of from this part of what is claimed on.
_KEPT_TO_MENTION = 20


class Refused(RuntimeError):
    """The device's budget is too small for this step.

    Parameters and optimizer are as they were when the step began, and PyTorch's
    generator of random numbers is as it was before the call; the engine can go
    on with a smaller batch.

    Attributes:
        operator: the operator, or the use, at which it is too much.
        peak_bytes: what the device would have to hold there beside parameters.
        resident_bytes: the parameters that it would have to hold there.
        smallest_device_budget_bytes: a budget that does, if `exact`. Otherwise
            the step was not seen to its end; it is what a pass on fake tensors
            came to, as in `castor.plan`, or a lower bound where the model does
            not run on them.
        exact: see there.
    """

    operator: str
    peak_bytes: int
    resident_bytes: int
    smallest_device_budget_bytes: int
    exact: bool

    def __init__(
        self, refusal: Refusal, foreseen_bytes: int | None = None, kept_bytes: int = 0
    ) -> None:
        """Args:
        foreseen_bytes: what a budget has to be as far as a pass on fake
            tensors shows; None: there was none.
        kept_bytes: of peak_bytes, tensors that earlier calls gave.
        """
        message = refusal.message
        if kept_bytes > refusal.peak_bytes // _KEPT_TO_MENTION:
            message += (
                f"; {kept_bytes} bytes of what it takes are tensors that earlier "
                "calls gave and that still live: keep loss.item(), and no outputs"
            )
        smallest = refusal.smallest_device_budget_bytes
        if not refusal.exact and foreseen_bytes is not None:
            smallest = max(smallest, foreseen_bytes + kept_bytes)
            message += f"; the whole step is foreseen to fit in {smallest} bytes"
        super().__init__(message)
        self.operator = refusal.operator
        self.peak_bytes = refusal.peak_bytes
        self.resident_bytes = refusal.resident_bytes
        self.smallest_device_budget_bytes = smallest
        self.exact = refusal.exact


class StepUndone(RuntimeError):
    """This try of a step failed, and another will not fail in the same way.

    A step whose gradients are coming did something else, or took more memory,
    than steps before it that began alike. Parameters and optimizer are as they
    were when the step began, and PyTorch's generator of random numbers is as it
    was before the call: run the step's micro batches again, and they draw what
    they drew.

    The engine does that by itself where it can: where each micro batch is one
    pass (`engine(...)` or `engine.compute(...)`), its loss was in the pass's
    output, and neither the loss nor an input was written to since. So this reaches
    who computes a loss from the output.
    """


class NonFiniteError(RuntimeError):
    """A gradient was not finite; the message names the first parameter.

    With `gradient_clipping`, or `"on_nonfinite_undo": true`, the step was undone:
    parameters, optimizer states and the count of updates are what they were, and
    the engine can go on, be saved and be evaluated. Without them, and after an
    update that was too large itself, the error comes a step or two later, when a
    parameter or state is not finite: then `Engine.load_checkpoint` makes the
    engine good again, and only that. With
    `"on_nonfinite": "skip"` it is raised after `max_skipped_steps` such steps in
    a row.
    """


class CheckpointError(RuntimeError):
    """A checkpoint that cannot be saved or loaded. Files that were there, the
    model and the optimizer are as they were."""
