"""Builds the core and the shim for the PyTorch of this environment.

    pip install ./python

The core, libcastor_client.so, is built by Bazel from the repository's root, or
taken from CASTOR_CORE_LIBRARY. The shim is compiled against the headers of the
torch that the environment has; pip's own build environment need not have it.
"""

import os
import re
import shutil
import subprocess
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
CORE_TARGET = "//client/interface:libcastor_client.so"
MINORS = range(9, 14)  # of torch 2


def refuse(what: str, do: str) -> None:
    raise SystemExit(f"castor: {what}; {do}")


def find_torch() -> tuple[Path, str]:
    """The folder of torch in this environment, and "2_13" of its version."""
    wanted = f"pip install 'torch>=2.{MINORS[0]},<2.{MINORS[-1] + 1}'"
    for key in ("platlib", "purelib"):
        folder = Path(sysconfig.get_paths()[key]) / "torch"
        version_file = folder / "version.py"
        if not version_file.is_file():
            continue
        found = re.search(
            r"__version__ = ['\"]((\d+)\.(\d+)[^'\"]*)", version_file.read_text()
        )
        if found is None:
            refuse(f"{version_file} names no version", wanted)
        version, major, minor = found.groups()
        if major != "2" or int(minor) not in MINORS:
            refuse(
                f"torch {version} is not among the versions that castor knows, "
                f"2.{MINORS[0]} to 2.{MINORS[-1]}",
                wanted,
            )
        return folder, f"{major}_{minor}"
    refuse("there is no torch in this environment", f"{wanted} first")
    raise AssertionError


def build_core() -> Path:
    given = os.environ.get("CASTOR_CORE_LIBRARY")
    if given:
        return Path(given)
    if not (ROOT / "WORKSPACE").is_file():
        refuse(
            f"{ROOT} is not castor's repository, where the core is built",
            "install from a clone: pip install ./python",
        )
    build = f"source tools/bazel.sh && castor_bazel build -c opt {CORE_TARGET}"
    if subprocess.run(["bash", "-c", build], cwd=ROOT).returncode != 0:
        refuse(
            "the core's build failed, as is said above",
            "tools/setup.sh --torch installs what it needs",
        )
    return ROOT / "bazel-bin" / CORE_TARGET.lstrip("/").replace(":", "/")


class Build(build_ext):
    def build_extension(self, extension: Extension) -> None:
        # One compiler for each source, side by side: setuptools takes them one
        # after another, which is most of an installation's time.
        compile_all = self.compiler.compile

        def side_by_side(sources: list[str], **options: Any) -> list[str]:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                objects = pool.map(lambda each: compile_all([each], **options), sources)
                return [name for names in objects for name in names]

        self.compiler.compile = side_by_side
        super().build_extension(extension)

    def run(self) -> None:
        core = build_core()
        super().run()
        package = (
            HERE / "castor" if self.inplace else Path(self.build_lib) / "castor"
        )
        there = package / "libcastor_client.so"
        there.unlink(missing_ok=True)
        shutil.copy(core, there)


torch, minor = find_torch()
name = f"_shim_{minor}"
# Not in the repository: another torch's objects may be there, or be made there at
# this moment, by an installation into another environment.
with tempfile.TemporaryDirectory(prefix="castor_build_") as build:
    setup(
        ext_modules=[
            Extension(
                f"castor.{name}",
                sources=sorted(
                    str(p.relative_to(HERE)) for p in HERE.glob("shim/*.cc")
                ),
                include_dirs=[str(ROOT)],
                define_macros=[("TORCH_EXTENSION_NAME", name)],
                extra_compile_args=[
                    "-std=c++20",
                    "-O2",
                    "-g0",
                    "-fvisibility=hidden",
                    # As the headers of a system, so that they give no warnings.
                    f"-isystem{torch / 'include'}",
                    f"-isystem{torch / 'include/torch/csrc/api/include'}",
                ],
                library_dirs=[str(torch / "lib")],
                libraries=["torch", "torch_cpu", "torch_python", "c10"],
                language="c++",
            )
        ],
        cmdclass={"build_ext": Build},
        options={"build": {"build_base": build}},
    )
