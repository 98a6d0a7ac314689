"""The scope in which a model is made."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Union

from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.utils.weak import WeakIdKeyDictionary

from castor._launch import port_is_a_store
from castor._library import shim
from castor._refused import each_line
from castor._shared_init import SharedInit

Config = Union[str, "os.PathLike[str]", Mapping[str, Any]]

_active: ZeroInit | None = None
# The scope in which each module had its parameters registered. A module has no
# reference to it, so that it is copied and pickled as ever.
_scope_of: Any = WeakIdKeyDictionary()


class ZeroInit:
    """A scope for making the model that `initialize` then takes.

        with castor.ZeroInit("run.json"):
            model = AutoModelForCausalLM.from_pretrained(DIR)
        engine = castor.initialize(model)

    A model that is made here, by its constructor, from_config or
    from_pretrained, is one that `initialize` can take without the host ever
    holding it twice: each of its larger tensors has pages of memory of its own,
    and they go back to the system at once when `initialize` has handed the
    tensor's values to managed memory. Values, types and draws of random numbers
    are those without the scope.

    `initialize` uses the scope's configuration, within the scope and after it.
    Parts that are added to the model later (adapters) are ordinary ones, and
    are taken over, too. There is one scope at a time in a process.

    On several ranks all of them enter the scope and leave it, and do the same
    in it: the model is made with rank 0's random numbers, and of its larger
    parameters each rank keeps the values of some, its share. In the scope they
    can be read and written as ever, by the thread that entered it; after it, or
    after `initialize` in it, reading them is an error until `initialize` has
    them.

    Args:
        config: a path of a JSON file, or a mapping, as for `initialize`. It is
            read now.

    Raises:
        ValueError: the configuration is wrong; or, when the scope is entered,
            how the ranks were started does not say where they meet.
        RuntimeError: a rank has gone, or does something else in the scope.
    """

    def __init__(self, config: Config) -> None:
        who = "castor.ZeroInit"
        self.config: Config = _plain(_read(config, who), who)
        self._nursery = shim.Nursery()
        self._hook: Any = None
        self._sharing: SharedInit | None = None  # with other ranks

    def __enter__(self) -> ZeroInit:
        global _active
        if _active is not None:
            raise RuntimeError(
                "castor.ZeroInit: a scope inside a scope; make both models in "
                "the one that is open, or close it first"
            )
        try:
            meeting = shim.Meeting(port_is_a_store())
        except RuntimeError as error:
            raise ValueError(
                f"castor.ZeroInit: {str(error).splitlines()[0]}"
            ) from None
        self._nursery.open()
        if meeting.world_size > 1:
            try:
                sharing = SharedInit(meeting)
                sharing.open()
            except BaseException:
                self._nursery.close()
                raise
            self._sharing = sharing
        else:
            meeting.end(None)
        _active = self
        self._hook = register_module_parameter_registration_hook(self._registered)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        global _active
        try:
            self._end_sharing(error)
        finally:
            self._nursery.close()
            self._hook.remove()
            _active = None

    def _end_sharing(self, error: BaseException | None = None) -> None:
        sharing, self._sharing = self._sharing, None
        if sharing is not None:
            sharing.close(error)

    def _registered(
        self, module: nn.Module, name: str, parameter: nn.Parameter | None
    ) -> None:
        _scope_of[module] = self
        if self._sharing is not None:
            self._sharing.registered(module, name, parameter)

    @property
    def host_bytes(self) -> int:
        """What the tensors that were made in the scope take now, 64 bytes more
        for each and rounded up to 64. What `initialize` takes over leaves it."""
        return self._nursery.live_bytes

    @property
    def host_peak_bytes(self) -> int:
        """The most of them so far."""
        return self._nursery.peak_bytes


def end_sharing() -> None:
    """What is made from now on in the active scope is each rank's own."""
    if _active is not None:
        _active._end_sharing()


def active_config(model: nn.Module | None = None) -> Config | None:
    """The configuration of the scope in which the model was made, or else of
    the one that is active."""
    for scope in _scopes_of(model):
        return scope.config
    return _active.config if _active is not None else None


def text_of(config: Config | None, who: str, model: nn.Module | None = None) -> str:
    """The text of a configuration, or of `active_config`.

    Raises:
        ValueError: there is none, it cannot be read, or it contradicts that of
            the scope in which the model was made. It begins with `who`.
    """
    if config is None:
        config = active_config(model)
    if config is None:
        raise ValueError(
            f"{who}: no configuration; give a path or a mapping, or make the "
            "model inside castor.ZeroInit"
        )
    text = _read(config, who)
    for scope in _scopes_of(model):
        key = _contradicted(scope.config, _plain(text, who))
        if key is not None:
            raise ValueError(
                f"{who}: {key} is not what it was in the castor.ZeroInit in which "
                "the model was made; give both the same configuration, or leave "
                "it out here"
            )
    return text


def account_of(text: str) -> dict[str, list[str]]:
    """What became of the keys of other systems: "notes"; of a configuration that is
    DeepSpeed's "autos" and "defaults", too. Empty where there are none, and where it
    cannot be read."""
    try:
        account: dict[str, list[str]] = json.loads(shim.config_account(text))
    except RuntimeError:
        return {}  # whoever reads it says why
    return account


def tell_of_deepspeed(text: str) -> None:
    """Warns of what in a configuration of another system's means nothing here."""
    account = account_of(text)
    notes = list(account.get("notes", []))
    if account.get("autos"):
        notes.append(f'"auto" counts as absent: {", ".join(account["autos"])}')
    for note in notes:
        warnings.warn(f"castor: {note}", stacklevel=4)


def _read(config: Config, who: str) -> str:
    if isinstance(config, Mapping):
        return json.dumps(config, default=lambda value: _not_json(value, who))
    if not isinstance(config, (str, os.PathLike)):
        raise ValueError(
            f"{who}: a configuration is a path or a mapping, not a "
            f"{type(config).__name__}"
        )
    try:
        return Path(os.fspath(config)).read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(
            f"{who}: {config} cannot be read: {error.strerror}"
        ) from None


def _not_json(value: Any, who: str) -> NoReturn:
    raise ValueError(
        f"{who}: the configuration has {value!r} in it, and JSON has nothing of "
        f"type {type(value).__name__}: give a number, a string or a mapping"
    )


def _plain(text: str, who: str) -> Any:
    try:
        return json.loads(shim.plain_config(text))
    except RuntimeError as error:
        raise ValueError(each_line(error, who)) from None


def _scopes_of(model: nn.Module | None) -> list[ZeroInit]:
    if model is None:
        return []
    scopes = (_scope_of.get(module) for module in model.modules())
    return list({id(scope): scope for scope in scopes if scope}.values())


def _contradicted(expected: Any, actual: Any, key: str = "") -> str | None:
    """The first key of `expected` that `actual` has not, or has otherwise."""
    if not isinstance(expected, Mapping):
        return None if expected is None or expected == actual else key
    for name, value in expected.items():
        inner = actual.get(name) if isinstance(actual, Mapping) else None
        wrong = _contradicted(value, inner, f"{key}.{name}" if key else name)
        if wrong is not None:
            return wrong
    return None
