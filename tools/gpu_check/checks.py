"""One check: a program that is run, and its row in the report."""

from __future__ import annotations

import os
import subprocess

from bounded import KILLED, Clock, Result, Runner
from results import Results


class Checks:
    """binaries: the folder of the programs; scratch: for files that nobody keeps;
    seconds: the longest that a check may take."""

    def __init__(
        self,
        binaries: str,
        results: Results,
        runner: Runner,
        clock: Clock,
        scratch: str,
        seconds: float,
    ) -> None:
        self.binaries, self.results = binaries, results
        self.runner, self.clock = runner, clock
        self.scratch, self.seconds = scratch, seconds
        self.python = os.environ.get("CASTOR_PYTHON", "python3")
        # Of whoever started the script. PyTorch brings its own.
        self.given_libraries = os.environ.get("LD_LIBRARY_PATH")
        self.libraries = ":".join(self._library_folders())

    def check(
        self,
        name: str,
        command: list[str],
        most: float | None = None,
        environment: dict[str, str | None] | None = None,
    ) -> bool:
        """Runs `command`, for `most` seconds or what the stage has left."""
        return self.row_of(name, self.run(name, command, most, environment))

    def run(
        self,
        name: str,
        command: list[str],
        most: float | None = None,
        environment: dict[str, str | None] | None = None,
    ) -> Result | None:
        """The same without its row; None: there was no time. Several threads may
        call it."""
        left = self.clock.stage_left()
        if left <= 1:
            return None
        return self.runner.run(
            command,
            self.results.log(name),
            min(left, most or self.seconds, self.seconds),
            environment={"LD_LIBRARY_PATH": self.libraries, **(environment or {})},
        )

    def check_python(
        self,
        name: str,
        arguments: list[str],
        most: float | None = None,
        environment: dict[str, str | None] | None = None,
    ) -> bool:
        """The same of a Python program, which finds its own libraries."""
        result = self.run_python(name, arguments, most, environment)
        return self.row_of(name, result)

    def run_python(
        self,
        name: str,
        arguments: list[str],
        most: float | None = None,
        environment: dict[str, str | None] | None = None,
    ) -> Result | None:
        """The same without its row."""
        return self.run(
            name,
            [self.python, "-W", "ignore", *arguments],
            most,
            {"LD_LIBRARY_PATH": self.given_libraries, **(environment or {})},
        )

    def row_of(self, name: str, result: Result | None) -> bool:
        """Whether it is well."""
        if result is None:
            self.results.row(name, "NOT RUN", "the stage's time was over", True)
            return False
        outcome = {0: "passed", KILLED: "KILLED"}.get(
            result.status, f"FAILED ({result.status})"
        )
        self.results.row(name, outcome, f"{result.seconds:.0f} s", not result.ok)
        if not result.ok:
            self.results.show(name, last_lines=15)
        return result.ok

    def share(self, parts: int) -> float:
        """The seconds of each of `parts` in what the stage has left."""
        return max(self.clock.stage_left() / parts, 1)

    def program(self, name: str) -> str | None:
        path = os.path.join(self.binaries, name)
        return path if os.access(path, os.X_OK) else None

    def _library_folders(self) -> list[str]:
        """Where libraries are that the programs do not bring along."""
        given = self.given_libraries.split(":") if self.given_libraries else []
        here = os.path.dirname(os.path.abspath(__file__))
        packages = [os.path.join(here, "..", "..", ".cuda", "nvidia")]
        if "CASTOR_CUDA_LIBS" in os.environ:
            packages.insert(0, os.path.join(os.environ["CASTOR_CUDA_LIBS"], "nvidia"))
        packages += said(
            [
                self.python,
                "-c",
                "import importlib.util as u; s = u.find_spec('nvidia');"
                "print('\\n'.join(s.submodule_search_locations if s else []))",
            ],
            20,
        ).splitlines()
        found = [
            os.path.join(package, library, "lib")
            for package in packages
            for library in ("cu13", "cublas", "nccl")
        ]
        found.append("/usr/local/cuda/lib64")
        return given + [folder for folder in found if os.path.isdir(folder)]


def said(command: list[str], seconds: float) -> str:
    """What a command says, or nothing where it fails."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            text=True,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
