"""What several ranks do together, beside what the core does."""

from __future__ import annotations

import json
from collections.abc import Callable

from castor._managed import Managed
from castor._refused import CheckpointError


def on_all_ranks(managed: Managed, what: str, work: Callable[[], str]) -> list[str]:
    """What `work` gives on each rank. An error on one of them is one on all."""
    if managed.world_size == 1:
        return [work()]
    failure: Exception | None = None
    mine = {}
    try:
        mine = {"done": work()}
    except Exception as error:
        failure = error
        lines = str(error).splitlines() or [type(error).__name__]
        mine = {"error": lines[0].removeprefix("castor: ")}
    all_ranks = [json.loads(t) for t in managed.run.exchange(what, json.dumps(mine))]
    if failure is not None:
        raise failure
    for rank, theirs in enumerate(all_ranks):
        if "error" in theirs:
            raise CheckpointError(f"castor: rank {rank}: {theirs['error']}")
    return [theirs["done"] for theirs in all_ranks]
