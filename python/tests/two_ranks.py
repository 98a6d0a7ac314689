"""Two ranks, as torchrun starts them, of a test's own file."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch


def on_two_ranks(script: str, *work: str, folder: str = "") -> list[dict[str, Any]]:
    """Each rank's results of this work, which it does in one process, by
    `do_as_a_rank` of the file `script`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as directory:
        processes = []
        for rank in range(2):
            environment = {
                **os.environ,
                "RANK": str(rank),
                "WORLD_SIZE": "2",
                "LOCAL_RANK": str(rank),
                "LOCAL_WORLD_SIZE": "2",
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
                "OMP_NUM_THREADS": "1",
                "CASTOR_TEST_FOLDER": folder,
            }
            out = str(Path(directory) / f"{rank}.json")
            processes.append(
                subprocess.Popen(
                    [sys.executable, "-W", "ignore", script, out, *work],
                    env=environment,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
        for rank, process in enumerate(processes):
            _, error = process.communicate()
            if process.returncode != 0:
                raise AssertionError(f"rank {rank}: {error}")
        return [
            json.loads((Path(directory) / f"{rank}.json").read_text())
            for rank in range(2)
        ]


def is_a_rank() -> bool:
    """Whether this process is one that on_two_ranks started."""
    return len(sys.argv) > 2 and "RANK" in os.environ


def do_as_a_rank(works: Mapping[str, Callable[[], Any]]) -> None:
    """What on_two_ranks asks this process for."""
    torch.set_num_threads(1)
    out, *asked = sys.argv[1:]
    results = {}
    for name in asked:
        results[name] = works[name]()
        print(name, file=sys.stderr, flush=True)
    Path(out).write_text(json.dumps(results))
