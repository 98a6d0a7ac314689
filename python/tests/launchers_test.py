"""Two ranks as each launcher starts them: torchrun, mpirun and srun."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import torch

from small import Net, X, bits, engine_of, one_step

# What a launcher's variables begin with: this process may have some of its own.
VARIABLES = ("RANK", "WORLD_SIZE", "OMPI_", "PMI_", "PMIX_", "SLURM_", "MASTER_", "LOCAL_")


def train_as_a_rank(folder: Path) -> None:
    torch.manual_seed(0)
    with engine_of(Net()) as engine:
        one_step(engine, X)
        result = {"world_size": engine.world_size, "bits": [b.hex() for b in bits(engine)]}
        (folder / f"{engine.rank}.json").write_text(json.dumps(result))


class Launchers(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = str(free.getsockname()[1])

    def start(self, *command: str, **more: str) -> subprocess.Popen[str]:
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(VARIABLES)
        }
        return subprocess.Popen(
            [*command, sys.executable, "-W", "ignore", __file__, str(self.folder)],
            env={**environment, "OMP_NUM_THREADS": "1", **more},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )

    def hold(self, *processes: subprocess.Popen[str]) -> None:
        for process in processes:
            said, _ = process.communicate(timeout=300)
            self.assertEqual(process.returncode, 0, said)
        torch.manual_seed(0)
        with engine_of(Net(), micro_batches=2) as engine:
            one_step(engine, X)
            one_step(engine, X)
            expected = [b.hex() for b in bits(engine)]
        for rank in range(2):
            told = json.loads((self.folder / f"{rank}.json").read_text())
            self.assertEqual(told, {"world_size": 2, "bits": expected})

    def test_torchrun(self) -> None:
        # What the script torchrun does.
        program = (
            "import sys; from torch.distributed.run import main; "
            "sys.exit(main(sys.argv[1:]))"
        )
        self.hold(
            self.start(
                sys.executable, "-W", "ignore", "-c", program, "--no-python",
                "--nproc_per_node", "2", "--master_port", self.port,
            )
        )

    @unittest.skipUnless(shutil.which("mpirun"), "there is no mpirun")
    def test_mpirun(self) -> None:
        meeting = ["-x", "MASTER_ADDR=127.0.0.1", "-x", f"MASTER_PORT={self.port}"]
        self.hold(
            self.start(
                "mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2", *meeting
            )
        )

    def test_srun(self) -> None:
        # Which is what it says to each of its processes.
        self.hold(
            *(
                self.start(
                    SLURM_JOB_ID=self.port, SLURM_STEP_ID="0",
                    SLURM_PROCID=str(rank), SLURM_STEP_NUM_TASKS="2",
                    SLURM_LOCALID=str(rank), SLURM_NODEID="0",
                    SLURM_STEP_TASKS_PER_NODE="2", SLURM_STEP_NODELIST="localhost",
                )
                for rank in range(2)
            )
        )


if __name__ == "__main__":
    train_as_a_rank(Path(sys.argv[1]))
