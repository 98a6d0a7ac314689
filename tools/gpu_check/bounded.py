"""Programs that end in time, whatever they do.

A run has a process group of its own and a mark in its environment, by which all
that it starts is found, also what has left its group. After its limit it is asked
to end, then killed; what the kernel does not let go of is left behind and said.
A program that is silent for too long counts as hung, and the log says where its
threads stood.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from dataclasses import dataclass, field

# Between a request to end, which castor takes as a wish to save, and SIGKILL.
GRACE_S = 2
MARK = "CASTOR_GPU_CHECK_RUN"
KILLED = 124  # the status of a run that was ended
LEFT_BEHIND = 125  # of one that ended well, and left processes that did not


class Clock:
    """The seconds that are left of all, and of the stage in progress."""

    def __init__(self, within_s: float) -> None:
        self._end = time.monotonic() + within_s
        self._stage_end = self._end

    def part(self, seconds: float) -> Clock:
        """The clock of a part of the stage, which may have so long."""
        return Clock(min(seconds, self.stage_left()))

    def left(self) -> float:
        return self._end - time.monotonic()

    def begin_stage(self, seconds: float) -> None:
        self._stage_end = min(self._end, time.monotonic() + seconds)

    def stage_left(self) -> float:
        return self._stage_end - time.monotonic()


@dataclass
class Result:
    status: int
    seconds: float
    notes: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return self.status == 0


class Runner:
    """Starts programs. Several threads may run one each."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._marks: set[str] = set()
        self._count = 0

    def run(
        self,
        command: list[str],
        log: str,
        limit_s: float,
        silence_s: float | None = None,
        environment: dict[str, str | None] | None = None,
    ) -> Result:
        """Runs `command` with its output in the file `log`.

        limit_s: after so long it is ended; silence_s: after so long without output,
        too. environment: variables set in it, or left out of it (None).
        """
        mark = self._new_mark()
        variables = dict(os.environ)
        for name, value in (environment or {}).items():
            if value is None:
                variables.pop(name, None)
            else:
                variables[name] = value
        variables[MARK] = mark
        started = time.monotonic()
        try:
            open(log, "wb").close()
            # Notes of ours come behind what it says.
            with open(log, "ab") as output:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=variables,
                    start_new_session=True,
                )
        except OSError as error:
            with open(log, "a") as output:
                output.write(f"gpu_check: {command[0]}: {error.strerror}\n")
            return Result(127, 0, [error.strerror or "it does not start"])
        try:
            result = self._wait(process, mark, log, max(limit_s, 1), silence_s)
        finally:
            self.kill(mark)
            with self._lock:
                self._marks.discard(mark)
        result.seconds = time.monotonic() - started
        if result.notes:
            with open(log, "a") as output:
                output.writelines(f"gpu_check: {note}\n" for note in result.notes)
        return result

    def kill_all(self) -> None:
        """Ends whatever runs, in whichever thread."""
        with self._lock:
            marks = list(self._marks)
        for mark in marks:
            self.kill(mark)

    def kill(self, mark: str) -> bool:
        """Kills what is left of a run. False: nothing was."""
        left = processes_of(mark)
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        return bool(left)

    def _new_mark(self) -> str:
        with self._lock:
            self._count += 1
            mark = f"{os.getpid()}.{self._count}"
            self._marks.add(mark)
            return mark

    def _wait(
        self,
        process: subprocess.Popen[bytes],
        mark: str,
        log: str,
        limit_s: float,
        silence_s: float | None,
    ) -> Result:
        end = time.monotonic() + limit_s
        size, last_word = 0, time.monotonic()
        while process.poll() is None:
            now = time.monotonic()
            if os.path.getsize(log) != size:
                size, last_word = os.path.getsize(log), now
            silent = silence_s is not None and now - last_word >= silence_s
            if now < end and not silent:
                time.sleep(0.05)
                continue
            with open(log, "a") as output:
                output.write(where_it_stands(mark))
            why = f"silent for {silence_s:.0f} s" if silent else f"over {limit_s:.0f} s"
            return self._end(process, mark, f"it was ended: {why}")
        status = process.returncode
        if status == 0 and self.kill(mark):
            return Result(LEFT_BEHIND, 0, ["processes outlived it, and were killed"])
        return Result(128 - status if status < 0 else status, 0)

    def _end(self, process: subprocess.Popen[bytes], mark: str, why: str) -> Result:
        for step in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(process.pid, step)
            except OSError:
                pass
            if step == signal.SIGKILL:
                self.kill(mark)
            try:
                process.wait(GRACE_S)
                return Result(KILLED, 0, [why])
            except subprocess.TimeoutExpired:
                pass
        return Result(KILLED, 0, [why, "it cannot be killed, and is left behind"])


def processes_of(mark: str) -> list[int]:
    """The processes that carry `mark`.

    To read a process's environment may take for ever where the kernel holds it, so
    that another process does it, which is given up.
    """
    files = glob.glob("/proc/[0-9]*/environ")
    found = _output(["grep", "-lsz", f"^{MARK}={re.escape(mark)}$", *files], seconds=5)
    return [int(path.split("/")[2]) for path in found.split()]


def where_it_stands(mark: str) -> str:
    """A line for each process of a run and for each group of its threads that wait
    in one place, and one process's stacks where there is a debugger."""
    debugger = shutil.which("cuda-gdb") or shutil.which("gdb")
    said = []
    for pid in processes_of(mark):
        command = _output(["cat", f"/proc/{pid}/cmdline"], 1).replace("\0", " ")
        said.append(f"gpu_check: process {pid}: {command[:200].strip()}")
        places: dict[str, int] = {}
        for task in glob.glob(f"/proc/{pid}/task/*"):
            state = re.search(r"^State:\t(.*)$", _text(f"{task}/status"), re.M)
            place = (
                f"{_text(f'{task}/comm').strip()}: {state[1] if state else '?'}, "
                f"in {_text(f'{task}/wchan')}"
            )
            places[place] = places.get(place, 0) + 1
        said += [f"{n:5} {place}" for place, n in sorted(places.items())]
        if debugger and "libcuda.so" in _output(["cat", f"/proc/{pid}/maps"], 1):
            said.append(
                _output(
                    [
                        debugger,
                        "-batch",
                        "-p",
                        str(pid),
                        "-ex",
                        "thread apply all backtrace 16",
                    ],
                    10,
                )
            )
            debugger = None  # one of them is enough
    return "\n".join(said) + "\n" if said else ""


def _output(command: list[str], seconds: float) -> str:
    try:
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds
        ).stdout.decode(errors="replace")
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _text(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""
