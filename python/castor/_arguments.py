"""What is done when TrainingArguments are made: a configuration of DeepSpeed's is
left to Castor, which reads it, and a GPU's memory is Castor's from the start."""

from __future__ import annotations

import functools
import json
from typing import Any

import torch
import transformers
from transformers.integrations import deepspeed

from castor._gpu import take_allocator


class _NoDeepSpeed(dict[str, Any]):
    """Stands for accelerate's plugins: when transformers.Trainer, which would train
    with DeepSpeed, hands them on, they are looked at, and say what is missing."""

    def values(self) -> Any:
        """Raises ImportError."""
        raise ImportError(
            "TrainingArguments has deepspeed, and DeepSpeed is not installed: "
            "pip install deepspeed, or use castor.Trainer"
        )


def keep_deepspeed_out() -> None:
    """From now on TrainingArguments(deepspeed=...) can be made where DeepSpeed is
    not installed. `deepspeed` keeps its value, for castor.Trainer."""
    kind: Any = transformers.TrainingArguments
    original = kind.__post_init__
    integration: Any = deepspeed
    if integration.is_deepspeed_available() or hasattr(original, "keeps_deepspeed_out"):
        return

    @functools.wraps(original)
    def post_init(self: Any) -> None:
        given, self.deepspeed = self.deepspeed, None
        try:
            original(self)
            _ = self.device  # it would ask for DeepSpeed later
        finally:
            self.deepspeed = given
        if isinstance(given, str) and given.startswith("{"):
            self.deepspeed = json.loads(given)
        if given:
            self.deepspeed_plugin = _NoDeepSpeed()

    post_init.keeps_deepspeed_out = True  # type: ignore[attr-defined]
    kind.__post_init__ = post_init


# Much of it has no annotations.
_cuda: Any = torch.cuda


def take_gpu_in_time() -> None:
    """From now on Castor's allocator takes the place of PyTorch's when
    TrainingArguments are made that put the model on a GPU: they begin to use it,
    after which that cannot be done."""
    kind: Any = transformers.TrainingArguments
    original = kind.__post_init__
    if hasattr(original, "takes_gpu_in_time"):
        return

    @functools.wraps(original)
    def post_init(self: Any) -> None:
        if (
            not self.use_cpu
            and _cuda.is_available()
            and not _cuda.is_initialized()
            and torch.version.hip is None
        ):
            take_allocator()
        original(self)

    post_init.takes_gpu_in_time = True  # type: ignore[attr-defined]
    kind.__post_init__ = post_init


def take_deepspeed(args: Any) -> Any:
    """The configuration of DeepSpeed's that TrainingArguments names, or None.

    Raises:
        ValueError: DeepSpeed has been set up for it.
    """
    if not args.deepspeed:
        return None
    plugin = getattr(args, "deepspeed_plugin", None)
    if plugin is not None and not isinstance(plugin, _NoDeepSpeed):
        raise ValueError(
            "castor.Trainer: TrainingArguments has set DeepSpeed up, which is "
            "installed; give castor.Trainer the file instead: castor="
            f"{args.deepspeed!r}, and TrainingArguments no deepspeed"
        )
    args.deepspeed_plugin = None
    return args.deepspeed
