"""Castor's Python package, compiled for the PyTorch that the machine has."""

from __future__ import annotations

import glob
import os
import shutil
import threading

from bounded import KILLED, Result
from checks import Checks, said

HAS_TORCH = "import importlib.util as u; print(u.find_spec('torch') or '')"


class TorchPackage:
    """Compiles in the background, beside the stages, since that takes as long as
    several of them; or takes `shim`, which an earlier run compiled."""

    def __init__(self, checks: Checks, shim: str | None) -> None:
        self._checks = checks
        self._shim = shim
        self._sources = os.path.join(checks.binaries, "torch_package")
        self.core = os.path.join(checks.binaries, "libcastor_client.so")
        self.folder = os.path.join(checks.scratch, "torch")  # for PYTHONPATH
        self._build: threading.Thread | None = None
        self._built: Result | None = None

    def begin(self) -> None:
        if (
            self._shim is None
            and os.path.isdir(self._sources)
            and said([self._checks.python, "-c", HAS_TORCH], 20)
        ):
            self._build = threading.Thread(target=self._compile, daemon=True)
            self._build.start()

    def end(self) -> None:
        """Waits for it where no stage has: what a later run can be given is worth
        the rest of the time."""
        if self._build is not None:
            self._wait(self._checks.clock.left())

    def make(self) -> bool:
        """Puts the package into `folder`. False: it cannot be had."""
        if self._shim is None:
            return self._build is not None and self._wait(
                self._checks.clock.stage_left()
            )
        package = os.path.join(self.folder, "castor")
        shutil.copytree(os.path.join(self._sources, "python", "castor"), package)
        shutil.copy(self._shim, package)
        shutil.copy(self.core, package)
        return True

    def _compile(self) -> None:
        # The sources are copied, since a build leaves files beside them.
        sources = os.path.join(self._checks.scratch, "package")
        shutil.copytree(self._sources, sources)
        result = self._checks.runner.run(
            [
                "nice",
                "-n",
                "10",
                self._checks.python,
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                "--no-index",
                "--no-deps",
                "--no-build-isolation",
                "--target",
                self.folder,
                os.path.join(sources, "python"),
            ],
            self._checks.results.log("torch_compiles"),
            self._checks.clock.left(),
            environment={
                "LD_LIBRARY_PATH": self._checks.given_libraries,
                "CASTOR_CORE_LIBRARY": self.core,
            },
        )
        if result.ok:
            for shim in glob.glob(os.path.join(self.folder, "castor", "_shim_*.so")):
                self._checks.results.keep(shim)
        self._built = result

    def _wait(self, seconds: float) -> bool:
        build, self._build = self._build, None
        if build is not None:
            build.join(max(seconds, 0))
        result = self._built or Result(KILLED, seconds)
        self._checks.row_of("torch_compiles", result)
        return result.ok
