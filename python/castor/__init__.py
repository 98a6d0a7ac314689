"""Castor under PyTorch: training in less device memory than the model needs.

    import castor

    engine = castor.initialize(model, "run.json")
    for batch in loader:
        loss = engine(**batch).loss
        engine.backward(loss)
        engine.step()
    engine.save_pretrained("tuned")

The model stays as it is. Its parameters live in Castor's memory: each operator
finds those that it reads on the device, and the others need not be there.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from castor._deepspeed import DeepSpeedEngine, deepspeed_initialize
from castor._engine import Engine, initialize
from castor._generator import generator_seed
from castor._plan import Plan, plan
from castor._refused import CheckpointError, NonFiniteError, Refused, StepUndone
from castor._zero_init import ZeroInit

__all__ = [
    "CheckpointError",
    "DeepSpeedEngine",
    "Engine",
    "NonFiniteError",
    "Plan",
    "Refused",
    "StepUndone",
    "Trainer",
    "ZeroInit",
    "deepspeed_initialize",
    "generator_seed",
    "initialize",
    "plan",
    "wrap",
]
# As tracebacks and pages name them.
for _public in (
    CheckpointError,
    DeepSpeedEngine,
    Engine,
    NonFiniteError,
    Plan,
    Refused,
    StepUndone,
    ZeroInit,
):
    _public.__module__ = __name__

if TYPE_CHECKING:
    from castor._trainer import Trainer as Trainer
    from castor._wrap import wrap as wrap

# TrainingArguments that are there already can name DeepSpeed's configuration.
if "transformers.training_args" in sys.modules:
    from castor._arguments import keep_deepspeed_out

    keep_deepspeed_out()

__version__ = (Path(__file__).parent / "VERSION").read_text().strip()


def __getattr__(name: str) -> Any:
    # transformers is only imported by who wants its Trainer.
    if name == "Trainer":
        from castor._trainer import Trainer

        return Trainer
    if name == "wrap":
        from castor._wrap import wrap

        return wrap
    raise AttributeError(f"module 'castor' has no attribute {name!r}")
