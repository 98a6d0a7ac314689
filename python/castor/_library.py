"""Finds the shim for this PyTorch, and the core."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import torch

__all__ = ["shim"]

_HERE = Path(__file__).parent


def shim_name(torch_version: str) -> str:
    """The module compiled against this version, as `_shim_2_13`."""
    major, minor = torch_version.split(".")[:2]
    return f"_shim_{major}_{minor}"


def _load() -> ModuleType:
    name = shim_name(torch.__version__)
    try:
        shim = importlib.import_module(f"castor.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"castor.{name}":
            raise
        there = sorted(p.name.split(".")[0] for p in _HERE.glob("_shim_*.so"))
        raise ImportError(
            f"castor: no part of this installation was made for torch "
            f"{torch.__version__} (it has {', '.join(there) or 'none'}); "
            "install castor again in this environment"
        ) from None
    # CASTOR_CORE lets a test put another library in the core's place.
    core = os.environ.get("CASTOR_CORE", str(_HERE / "libcastor_client.so"))
    shim.load_core(core)
    return shim


if TYPE_CHECKING:
    from castor import _shim as shim
else:
    shim = _load()
