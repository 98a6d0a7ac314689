"""usage: gpu_check.sh [--bin FOLDER] [--log FOLDER] [--stage NAME[,NAME...]]
                    [--within SECONDS] [--seconds N] [--shim FILE]
       gpu_check.sh [--bin FOLDER] [--log FOLDER] [--within SECONDS]
                    --training ROWS [--peers PEERS]

Runs on a machine with a GPU, the most valuable first:
  1 facts      what the machine has: memory, processors, limits, versions, and
               whether each program finds its libraries; castor info, with the bus
               measured, and what the driver says of the GPU
  2 device     the tests of the device's contract
  3 operators  those of every operator, in eight processes side by side
  4 train      training: the same bits under three policies and two budgets, and
               in a second run; in fp16, with steps that overflow, under two; on
               two GPUs where there are two
  5 model      GPT-2 124M, 16 x 1024 tokens, twelve steps: the time of one, and the
               peak, beside what was predicted
  6 launch     what launches cost
  7 sanitizer  compute-sanitizer: memcheck of what has failed, else racecheck of
               attention and of the head's loss
  8 again      what had failed in the run before, case by case, with launches that
               wait
  9 promises   random models, placements and budgets; whatever test is left
 10 torch      the Python package on the GPU: the same bits at three budgets, near
               PyTorch's alone, and so castor.Trainer, where there is transformers;
               processes side by side. It is compiled in the background, as soon as
               facts has measured the bus, for the PyTorch of CASTOR_PYTHON (default:
               python3)
 11 peers      the operators beside those of that PyTorch
 12 offload    GPT-2 1.5B in 6 GiB, eight steps
Each result is printed as it comes, and the last lines are a row each. A test
program's process ends at its first failure, and a new one takes the cases that are
left. Of a program that hangs the log says where its threads stand, with a debugger's
stacks where there is gdb or cuda-gdb. The exit status is 0 if nothing failed and,
where tests were among the stages, at least one ran on a GPU.

--bin FOLDER  programs as tools/gpu_bundle.sh collects them. Without it they are
              built here by Bazel.
--log FOLDER  the results: report.txt, the table, and logs.tar.gz, all output
              (default: gpu_check_results), after every stage; earlier results stay
              in both. The compiled part of the Python package is there, too.
--stage       only these, by name or number
--within S    all of it ends within S seconds, whatever hangs (default 1500, and with
              --training no limit). Stages get their parts of that; one that ends early
              leaves its time to those after it.
--seconds N   the longest that a program may take (default 300); it is killed then
--shim FILE   the compiled part of the Python package that an earlier run left; where
              there is no such file, it is compiled again
--training    instead of all that: training speed beside PyTorch's, ROWS of
              gpu_training.py (which has a list) with commas, or all, beside PEERS
              of those that it knows. Hours for all of them.

cuBLASLt and NCCL are looked for in FOLDER/lib, in Python's nvidia packages (of
the folder CASTOR_CUDA_LIBS, of this checkout's .cuda, and installed ones) and in
/usr/local/cuda.
"""

from __future__ import annotations

import argparse
import glob
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from typing import BinaryIO, NoReturn

from bounded import GRACE_S, Clock, Runner
from results import Results, now
from stages import Stages

# A stage's part of the time, in seconds where there are 600.
PARTS = {
    "facts": 35,
    "device": 20,
    "operators": 85,
    "train": 65,
    "model": 30,
    "launch": 30,
    "sanitizer": 85,
    "again": 40,
    "promises": 40,
    "torch": 80,
    "peers": 50,
    "offload": 60,
}
WITHIN_S = 1500
TESTS = {"device", "operators", "promises"}
TOOLS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def complain(what: str) -> NoReturn:
    print(f"gpu_check: {what}", file=sys.stderr)
    sys.exit(2)


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        complain(f"{message}; see --help")


def choose(text: str) -> list[str]:
    """The stages of a list with commas, in the order in which they run."""
    names = list(PARTS)
    chosen = set()
    for word in text.split(","):
        if word in names:
            chosen.add(word)
        elif word.isdecimal() and 1 <= int(word) <= len(names):
            chosen.add(names[int(word) - 1])
        else:
            complain(f"unknown stage '{word}'; see --help")
    return [name for name in names if name in chosen]


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"wants a number of seconds, not '{text}'")
    return int(text)


def parse() -> argparse.Namespace:
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(__doc__.strip())
        sys.exit(0)
    parser = Parser(add_help=False)
    parser.add_argument("--bin")
    parser.add_argument("--log", default="gpu_check_results")
    parser.add_argument("--stage", type=choose, default=list(PARTS))
    parser.add_argument("--within", type=positive)
    parser.add_argument("--seconds", type=positive, default=300)
    parser.add_argument("--shim")
    parser.add_argument("--training")
    parser.add_argument("--peers")
    arguments = parser.parse_args()
    if arguments.shim is not None and not os.path.isfile(arguments.shim):
        print(f"gpu_check: there is no file {arguments.shim}: it is compiled anew")
        arguments.shim = None
    if arguments.peers is not None and arguments.training is None:
        complain("--peers is of --training; see --help")
    return arguments


def find_programs(given: str | None, scratch: str) -> str:
    folder = given
    if folder is None:
        folder = os.path.join(scratch, "bundle")
        made = subprocess.run([os.path.join(TOOLS, "gpu_bundle.sh"), "--into", folder])
        if made.returncode != 0:
            sys.exit(made.returncode)
    if not os.access(os.path.join(folder, "castor"), os.X_OK):
        complain(f"there is no {folder}/castor; tools/gpu_bundle.sh makes it")
    return os.path.abspath(folder)


def hold_gpus() -> list[BinaryIO]:
    """Opens each GPU. One that nobody holds open, the driver sets up anew for the
    next process, for a second or two."""
    held: list[BinaryIO] = []
    for path in glob.glob("/dev/nvidia[0-9]*"):
        try:
            held.append(open(path, "rb", buffering=0))
        except OSError:
            pass  # the stages say what there is
    return held


def tell_end(stages: Stages, results: Results) -> None:
    print()
    results.print_last()
    results.say(
        f"{stages.on_gpu} test programs ran on a GPU, "
        f"{results.failed} checks failed"
    )
    results.pack()


def watch(
    clock: Clock, runner: Runner, stages: Stages, results: Results, scratch: str
) -> None:
    """Ends the script when its time is over, wherever it hangs."""
    time.sleep(max(clock.left(), 0) + 3 * GRACE_S)
    results.row("gpu_check", "KILLED", "its time was over", failed=True)
    runner.kill_all()
    tell_end(stages, results)
    shutil.rmtree(scratch, ignore_errors=True)
    os._exit(1)


def run_stages(
    arguments: argparse.Namespace, stages: Stages, results: Results, clock: Clock
) -> None:
    parts_left = sum(PARTS[name] for name in arguments.stage)
    for name in arguments.stage:
        seconds = clock.left() * PARTS[name] / parts_left
        parts_left -= PARTS[name]
        if seconds <= 0:
            results.row(name, "NOT RUN", "the time was over", failed=True)
            continue
        clock.begin_stage(seconds)
        results.say(f"stage {name}, at most {seconds:.0f} s")
        getattr(stages, f"run_{name}")()
        results.pack()
    stages.package.end()
    if TESTS & set(arguments.stage) and stages.on_gpu == 0:
        results.row("gpu_check", "FAILED", "no test ran on a GPU", failed=True)


def train_beside_pytorch(
    stages: Stages, rows: str, peers: str | None, within_s: int | None
) -> int:
    """The rows of gpu_training.py, or all of them, on the terminal."""
    command = [
        stages.python,
        os.path.join(stages.binaries, "gpu_training.py"),
        "--castor",
        os.path.join(stages.binaries, "castor"),
        "--castor-libraries",
        stages.libraries,
        "--out",
        os.path.join(stages.results.folder, "training.jsonl"),
        *(["--peers", peers] if peers else []),
        *([] if rows == "all" else rows.split(",")),
    ]
    training = subprocess.Popen(command, start_new_session=True)
    try:
        return training.wait(within_s)
    except subprocess.TimeoutExpired:
        print(f"gpu_check: it was ended after {within_s} s", file=sys.stderr)
        return 1
    finally:
        end_group(training)


def end_group(leader: subprocess.Popen[bytes]) -> None:
    """Asks a process to end, which removes its files then, and kills what is left of
    its group."""
    leader.terminate()
    try:
        leader.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        pass
    try:
        os.killpg(leader.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # all of it has ended
    leader.wait()


def main() -> int:
    arguments = parse()
    scratch = tempfile.mkdtemp(prefix="gpu_check.")
    runner = Runner()
    results = None
    held = hold_gpus()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    try:
        folder = find_programs(arguments.bin, scratch)
        results = Results(os.path.abspath(arguments.log), scratch)
        # What is killed last and the archive take some seconds, too.
        clock = Clock(max((arguments.within or WITHIN_S) - 5 * GRACE_S, 1))
        stages = Stages(
            folder,
            results,
            runner,
            clock,
            scratch,
            arguments.seconds,
            arguments.shim and os.path.abspath(arguments.shim),
        )
        if arguments.training is not None:
            return train_beside_pytorch(
                stages, arguments.training, arguments.peers, arguments.within
            )
        threading.Thread(
            target=watch, args=(clock, runner, stages, results, scratch), daemon=True
        ).start()
        results.say(f"gpu_check: stages {' '.join(arguments.stage)}, {now()}")
        if "torch" in arguments.stage and "facts" not in arguments.stage:
            stages.package.begin()
        run_stages(arguments, stages, results, clock)
        tell_end(stages, results)
        return 1 if results.failed else 0
    finally:
        runner.kill_all()
        if results is not None:
            results.pack()
        shutil.rmtree(scratch, ignore_errors=True)
        for gpu in held:
            gpu.close()


if __name__ == "__main__":
    sys.exit(main())
