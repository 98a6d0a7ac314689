"""The scope in which a model is made."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Union

Config = Union[str, "os.PathLike[str]", Mapping[str, Any]]

_active: list[ZeroInit] = []


class ZeroInit:
    """A scope for making the model that `initialize` then takes.

        with castor.ZeroInit("run.json"):
            model = AutoModelForCausalLM.from_pretrained(DIR)
            engine = castor.initialize(model)

    Inside it `initialize` needs no configuration of its own. Parameters that
    are born here are host memory, never the device's; `initialize` moves their
    values to where Castor keeps them, one parameter at a time, and frees each.

    What it does not do yet: a parameter is still made by PyTorch first, whole
    and in the type that the model chose, so that the host holds the model once
    before `initialize`; and nothing is divided among ranks.

    Args:
        config: a path of a JSON file, or a mapping, as for `initialize`.
    """

    def __init__(self, config: Config) -> None:
        self.config = config

    def __enter__(self) -> ZeroInit:
        _active.append(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _active.remove(self)


def active_config() -> Config | None:
    """The configuration of the innermost scope, if there is one."""
    return _active[-1].config if _active else None


def text_of(config: Config | None, who: str) -> str:
    """The text of a configuration, or of that of the innermost scope.

    Raises:
        ValueError: there is none, or it cannot be read. It begins with `who`.
    """
    if config is None:
        config = active_config()
    if config is None:
        raise ValueError(
            f"{who}: no configuration; give a path or a mapping, or call it "
            "inside castor.ZeroInit"
        )
    if isinstance(config, Mapping):
        return json.dumps(config)
    try:
        return Path(os.fspath(config)).read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(
            f"{who}: {config} cannot be read: {error.strerror}"
        ) from None
