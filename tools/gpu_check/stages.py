"""What each stage runs."""

from __future__ import annotations

import fnmatch
import functools
import glob
import json
import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor

from bounded import Clock, Result, Runner
from checks import Checks, said
from googletest import SILENCE_S, Program, cases_of
from results import Results
from torch_package import TorchPackage

# Processes that test operators side by side.
PROCESSES = 8
# Operators whose blocks wait for each other: they want a GPU to themselves.
WAITING_CASES = ("*Attention*",)
# What racecheck looks at where nothing has failed.
RACECHECK_CASES = "*Attention*:*HeadLoss*"
# What a wave of PyTorch's runs leaves to each that comes after it.
LATER_WAVE_S = 15
# A sanitizer's tool shows little in less.
WORTH_A_TOOL_S = 60
FAILED_CASES = "failed_cases.json"

FACTS = r"""
uname -a
nproc
lscpu | grep -E 'Model name|^CPU\(s\)|NUMA|L3' || true
free -m
df -h . /dev/shm /tmp
echo "huge pages: $(cat /sys/kernel/mm/transparent_hugepage/enabled)"
echo "locked memory: $(ulimit -l) KiB; open files: $(ulimit -n); processes: $(ulimit -u)"
cat /etc/os-release | head -n 2
command -v nvcc && nvcc --version | tail -n 2
command -v compute-sanitizer ncu nsys cuda-gdb gdb g++ ninja || true
"""
PYTHON_FACTS = r"""
import importlib, os, sys, sysconfig
print("python", sys.version.split()[0], "headers",
      "here" if os.path.exists(os.path.join(sysconfig.get_paths()["include"],
                                            "Python.h")) else "MISSING")
for name in ("torch", "transformers", "triton", "deepspeed", "setuptools", "pip"):
    try:
        print(name, importlib.import_module(name).__version__)
    except Exception as error:
        print(name, "not there:", error)
import torch
print("cuda", torch.version.cuda, "cudnn", torch.backends.cudnn.version(),
      "gpu", torch.cuda.is_available())
"""
# A line for each library that a program does not find.
LIBRARIES = r"""
status=0
for program in "$1"/*; do
  [[ -f "${program}" && -x "${program}" ]] || continue
  head -c 4 "${program}" | grep -q ELF || continue
  missing="$(ldd "${program}" 2>&1 | grep 'not found')" || continue
  echo "${program##*/}: ${missing}"
  status=1
done
exit "${status}"
"""
FIND_TRANSFORMERS = """
import importlib.util
print(importlib.util.find_spec('transformers') or '')
"""
# The device's budget of a run that has other ones beside it.
SMALL = str(2 << 30)
FIND_TORCH = """
import torch
assert torch.cuda.is_available()
print(torch.__version__)
"""


class Stages(Checks):
    """Each method `run_NAME` is a stage. A check is a row of the report."""

    def __init__(
        self,
        binaries: str,
        results: Results,
        runner: Runner,
        clock: Clock,
        scratch: str,
        seconds: float,
        shim: str | None,
    ) -> None:
        super().__init__(binaries, results, runner, clock, scratch, seconds)
        self.package = TorchPackage(self, shim)
        self._failed_cases: list[tuple[str, str]] = []
        self._hashes: dict[str, str] = {}  # of the parameters, by run
        self.on_gpu = 0  # programs of which a case ran on a GPU

    # -- facts ------------------------------------------------------------------

    def run_facts(self) -> None:
        self.check("facts", ["bash", "-c", FACTS], 15)
        self.results.show("facts")
        self.check("libraries", ["bash", "-c", LIBRARIES, "bash", self.binaries], 15)
        if castor := self.program("castor"):
            self.check("info", [castor, "info"], 60)
            self.results.show("info")
        self._state_of_gpu("nvidia_smi")
        # Whoever compiles uses the memory whose bandwidth castor info measures.
        self.package.begin()
        self.check_python("python", ["-c", PYTHON_FACTS])
        self.results.show("python")

    def _state_of_gpu(self, name: str) -> None:
        """The driver's word of it: benchmarks depend on clocks and heat."""
        if shutil.which("nvidia-smi") is None:
            return
        self.check(
            name,
            [
                "nvidia-smi",
                "--format=csv",
                "--query-gpu=name,driver_version,"
                "memory.total,memory.used,clocks.sm,clocks.max.sm,clocks.mem,power.draw,"
                "power.limit,temperature.gpu,pcie.link.gen.current,"
                "pcie.link.width.current",
            ],
            15,
        )
        self.results.show(name)

    # -- tests ------------------------------------------------------------------

    def run_device(self) -> None:
        self._test("gpu_device_test")

    def run_operators(self) -> None:
        self._test("operators_gpu_test", PROCESSES, WAITING_CASES)

    def run_promises(self) -> None:
        first = ("gpu_device_test", "operators_gpu_test")
        names = sorted(
            {
                os.path.basename(path)
                for pattern in ("*_gpu_test", "gpu_*_test")
                for path in glob.glob(os.path.join(self.binaries, pattern))
            }
            - set(first)
        )
        for at, name in enumerate(names):
            # Each of the promises' cases has runs enough for a process.
            processes = PROCESSES if name == "promises_gpu_test" else 1
            self._test(name, processes, parts=len(names) - at)

    def _test(
        self,
        name: str,
        processes: int = 1,
        last: tuple[str, ...] = (),
        parts: int = 1,
    ) -> None:
        path = self.program(name)
        if path is None:
            return
        log = self.results.log(f"{name}.cases")
        cases = cases_of(self.runner, path, log)
        if cases is None:
            self.results.row(name, "FAILED", "it does not say its cases", True)
            self.results.show(f"{name}.cases", last_lines=15)
            return
        for pattern in last:
            if not fnmatch.filter(cases, pattern):
                self.results.row(name, "FAILED", f"no case is like {pattern}", True)
        clock = self.clock.part(self.share(parts))
        program = Program(
            self.runner,
            clock,
            path,
            self.results.log,
            name,
            processes,
            last,
            {"LD_LIBRARY_PATH": self.libraries},
            min(SILENCE_S, self.seconds),
        )
        outcome = program.run(cases)
        for case, how in outcome.failed.items():
            self._failed_cases.append((name, case))
            self.results.row(f"{name}.{case}", "FAILED", how, True)
        self._write_failed()
        if outcome.left:
            more = len(outcome.left) - 1
            self.results.row(
                name, "NOT RUN", f"{outcome.left[0]} and {more} more", True
            )
        if outcome.passed:
            self.on_gpu += 1
        elif not outcome.failed:
            if outcome.skipped:
                self.results.row(name, "skipped", "no case ran on a GPU")
            return
        self.results.row(
            name,
            "FAILED" if outcome.failed else "passed",
            f"{len(outcome.passed)} passed, {len(outcome.failed)} failed, "
            f"{len(outcome.skipped)} skipped",
        )

    def _write_failed(self) -> None:
        with open(os.path.join(self.results.logs, FAILED_CASES), "w") as file:
            json.dump(self._failed_cases, file)

    def run_again(self) -> None:
        """The cases that had failed when the archive was packed, one by one, with
        launches that wait, so that the one that fails is known."""
        path = os.path.join(self.results.logs, FAILED_CASES)
        try:
            with open(path) as file:
                cases = [(str(p), str(c)) for p, c in json.load(file)]
        except (OSError, ValueError):
            cases = []
        if not cases:
            self.results.row("again", "skipped", "no case had failed")
        for at, (program, case) in enumerate(cases):
            if binary := self.program(program):
                self.check(
                    f"{program}.{case}.blocking",
                    [binary, f"--gtest_filter={case}"],
                    self.share(len(cases) - at),
                    {"CUDA_LAUNCH_BLOCKING": "1"},
                )

    def run_sanitizer(self) -> None:
        """memcheck of what failed, else racecheck of what shares memory most; then, in
        the time that is left, the other tools over all operators."""
        if shutil.which("compute-sanitizer") is None:
            self.results.row("compute-sanitizer", "skipped", "it is not installed")
            return
        cases = [("memcheck", p, c) for p, c in self._failed_cases]
        cases = cases or [("racecheck", "operators_gpu_test", RACECHECK_CASES)]
        for at, (tool, program, case) in enumerate(cases):
            self._sanitize(tool, program, case, self.share(len(cases) - at))
        for tool in ("memcheck", "synccheck", "initcheck"):
            if self.clock.stage_left() > WORTH_A_TOOL_S:
                self._sanitize(tool, "operators_gpu_test", "*", None)

    def _sanitize(self, tool: str, program: str, case: str, most: float | None) -> None:
        if path := self.program(program):
            # It looks at our own kernels, not at those of NVIDIA's libraries.
            self.check(
                f"{tool}_{program}.{case}",
                [
                    "compute-sanitizer",
                    "--tool",
                    tool,
                    "--report-api-errors",
                    "no",
                    "--error-exitcode",
                    "9",
                    "--kernel-name",
                    "kernel_substring=RunProgram",
                    path,
                    f"--gtest_filter={case}",
                ],
                most,
                {"CASTOR_CASES": "12"},
            )

    # -- training ---------------------------------------------------------------

    def run_train(self) -> None:
        if self.program("castor") is None:
            return
        policy = "memory.placement_policy="
        fp16 = [
            "bf16={}",
            'fp16={"enabled": true, "initial_scale_power": 30, ' '"hysteresis": 1}',
        ]
        small = "memory.device_memory=128MiB"
        # What has no budget takes all of a GPU's memory, for seconds. One run does.
        enough = f"memory.device_memory={SMALL}"
        runs = [
            ("cuda", [policy + "cuda"], ""),
            ("cpu", [policy + "cpu", enough], "cuda"),
            ("auto", [policy + "auto", enough], "cuda"),
            ("auto_128mib", [small], "cuda"),
            ("cuda_again", [policy + "cuda", enough], "cuda"),
            # From a scale at which the first steps overflow.
            ("fp16", [*fp16, policy + "cuda", enough], ""),
            ("fp16_128mib", [*fp16, small], "fp16"),
        ]
        for at, (name, settings, like) in enumerate(runs):
            self._train(name, 1, settings, like, len(runs) - at + 1)
        gpus = self._gpus()
        if gpus < 2:
            self.results.row("train_2_gpus", "skipped", f"this machine has {gpus} GPU")
            return
        for name in ("cuda", "cpu", "auto"):
            settings = [policy + name, "gradient_accumulation_steps=1"]
            self._train(f"2_gpus_{name}", 2, settings, "cuda", 1)

    def _train(
        self, name: str, gpus: int, settings: list[str], like: str, parts: int
    ) -> None:
        """A run, and a row on whether its parameters are those of `like`."""
        castor = os.path.join(self.binaries, "castor")
        start = (
            [castor, "train"] if gpus == 1 else [castor, "launch", "--nproc", str(gpus)]
        )
        summary = os.path.join(self.scratch, f"{name}.json")
        command = [
            *start,
            os.path.join(self.binaries, "gpu_check.json"),
            "--summary",
            summary,
        ]
        for setting in settings:
            command += ["--set", setting]
        if not self.check(f"train_{name}", command, self.share(min(parts, 3))):
            return
        with open(summary) as file:
            self._hashes[name] = json.load(file)["parameters_sha256"]
        self.results.say(f"    sha256 {self._hashes[name]}")
        if like in self._hashes:
            same = self._hashes[name] == self._hashes[like]
            self.results.row(
                f"train_{name}_has_the_bits_of_{like}",
                "passed" if same else "FAILED",
                "",
                not same,
            )

    def _gpus(self) -> int:
        log = self.results.log("info")
        if not os.path.exists(log) and (castor := self.program("castor")):
            self.runner.run([castor, "info"], log, 30)
        try:
            with open(log) as file:
                return len(re.findall(r"^cuda device \d", file.read(), re.M))
        except OSError:
            return 0

    # -- speed ------------------------------------------------------------------

    def run_model(self) -> None:
        self._training_row("124m", 12)

    def run_offload(self) -> None:
        self._training_row("1.5b-6g", 8)

    def _training_row(self, row: str, steps: int) -> None:
        program = self.program("gpu_training.py")
        castor = self.program("castor")
        if program is None or castor is None:
            return
        self.check_python(
            f"training_{row}",
            [
                program,
                row,
                "--peers", "none",
                "--rounds",
                "1",
                "--steps",
                str(steps),
                "--castor",
                castor,
                "--castor-libraries",
                self.libraries,
            ],
        )
        self.results.show(f"training_{row}")

    def run_launch(self) -> None:
        self._state_of_gpu("nvidia_smi_before")
        if bench := self.program("gpu_bench"):
            self.check("gpu_bench", [bench, "--benchmark_repetitions=1"])
            self.results.show("gpu_bench")
        if castor := self.program("castor"):
            self.check("info_measure", [castor, "info", "--measure"])
            self.results.show("info_measure")

    def run_peers(self) -> None:
        bench, peer = (
            self.program(n) for n in ("gpu_kernels_bench", "gpu_kernels_peer.py")
        )
        if bench is None or peer is None:
            return
        if self._torch_version() is None:
            self.results.row(
                "gpu_kernels_peer",
                "skipped",
                f"{self.python} has no PyTorch that finds a GPU",
            )
            return
        self.check_python(
            "gpu_kernels_peer",
            [
                peer,
                bench,
                "--rounds",
                "1",
                "--repetitions",
                "1",
                "--program-libraries",
                self.libraries,
            ],
        )
        self.results.show("gpu_kernels_peer")
        self._state_of_gpu("nvidia_smi_after")

    # -- PyTorch ----------------------------------------------------------------

    @functools.cache
    def _torch_version(self) -> str | None:
        """Of the PyTorch that finds a GPU, or None."""
        log = self.results.log("torch_version")
        result = self.runner.run(
            [self.python, "-W", "ignore", "-c", FIND_TORCH],
            log,
            min(60, self.share(1), self.seconds),
            environment={"LD_LIBRARY_PATH": self.given_libraries},
        )
        if not result.ok:
            return None
        with open(log) as file:
            return file.read().split()[-1]

    def run_torch(self) -> None:
        version = self._torch_version()
        if version is None:
            self.results.row(
                "torch", "skipped", f"{self.python} has no PyTorch that finds a GPU"
            )
            return
        if not os.path.exists(self.package.core):
            self.results.row(
                "torch", "skipped", f"there is no {self.binaries}/libcastor_client.so"
            )
            return
        if not self.package.make():
            return
        self.results.row("torch_version", version, "")

        def out(name: str) -> str:
            return os.path.join(self.scratch, f"{name}.json")

        def engine(name: str, *more: str) -> tuple[str, list[str]]:
            return name, ["engine", "--out", out(name), *more]

        def trainer(name: str, *more: str) -> tuple[str, list[str]]:
            return name, ["trainer", "--out", out(name), *more]

        small, like = ["--budget", SMALL], ["--like", out("all")]
        smallest, middle = ["--budget", "smallest"], ["--budget", "middle"]
        with_trainer = self._has_transformers()
        # Processes side by side, since most of one is the start of PyTorch; so each
        # has a budget, but for the last two, which take all that the GPU has free.
        waves: list[list[tuple[str, list[str]]]] = [
            [
                ("late", ["late"]),
                ("refused", ["refused"]),
                ("plain", ["plain", "--out", out("plain")]),
                engine("all", *small),
                engine("bf16", "--bf16", *small),
            ],
            [
                ("near_plain", ["near", out("plain"), out("all")]),
                engine("smallest", *like, *smallest),
                engine("middle", *like, *middle),
                engine("cpu_smallest", *like, *smallest, "--policy", "cpu"),
                engine("side_stream", *like, *middle, "--side-stream"),
                engine(
                    "bf16_smallest", "--bf16", "--like", out("bf16"), *smallest
                ),
            ],
            [engine("again", *like)],
            [("twice", ["twice"])],
        ]
        if with_trainer:
            waves[0] += [
                ("plain_trainer", ["plain-trainer", "--out", out("plain_trainer")]),
                trainer("trainer", *small),
            ]
            waves[1] += [
                ("near_trainer", ["near", out("plain_trainer"), out("trainer")]),
                trainer("trainer_smallest", "--like", out("trainer"), *smallest),
            ]
        else:
            self.results.row(
                "torch_trainer", "skipped", f"{self.python} has no transformers"
            )
        for at, wave in enumerate(waves):
            if at > 0 and not os.path.exists(out("all")):
                return  # nothing to compare with
            later = len(waves) - at - 1
            left = self.clock.stage_left() - later * LATER_WAVE_S
            self._run_torch_wave(wave, max(left, self.share(later + 1)))

    def _run_torch_wave(
        self, runs: list[tuple[str, list[str]]], seconds: float
    ) -> None:
        """Runs of gpu_torch.py side by side, and their rows."""

        def run(name: str, arguments: list[str]) -> Result | None:
            return self.run_python(
                f"torch_{name}",
                [os.path.join(self.binaries, "gpu_torch.py"), *arguments],
                seconds,
                {
                    "PYTHONPATH": self.package.folder,
                    "CASTOR_CORE": self.package.core,
                    "OMP_NUM_THREADS": "2",  # several share the processors
                },
            )

        with ThreadPoolExecutor(len(runs)) as pool:
            results = pool.map(lambda each: run(*each), runs)
        for (name, _), result in zip(runs, results):
            self.row_of(f"torch_{name}", result)

    def _has_transformers(self) -> bool:
        return bool(said([self.python, "-c", FIND_TRANSFORMERS], 20))
