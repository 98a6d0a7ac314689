"""How the ranks of a run were started, as far as PyTorch knows of it."""

from __future__ import annotations

import os
from typing import Any

import torch.distributed as dist


def port_is_a_store() -> bool:
    """Whether PyTorch's process group has a store at MASTER_PORT, so that ranks
    cannot meet there by themselves, but through it."""
    if not dist.is_available() or not dist.is_initialized():
        return False
    store: Any = dist.distributed_c10d._get_default_store()
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    return str(getattr(store, "port", "")) == os.environ.get("MASTER_PORT")
