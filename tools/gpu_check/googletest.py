"""A GoogleTest program in several processes, each of its cases to an end.

A GPU's failure can be sticky: every later call of that process fails, too. So a
process ends at its first failure, and a new one takes the cases that are left.
"""

from __future__ import annotations

import fnmatch
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from bounded import KILLED, Clock, Runner

# A case that says nothing for so long hangs.
SILENCE_S = 60
# The longest argument that Linux takes is 128 KiB.
LONGEST_FILTER = 100_000

_CASE_DONE = re.compile(r"^\[ +(OK|FAILED|SKIPPED) +\] (\S+?)(?:,.*)? \(\d+ ms\)$")
_CASE_BEGUN = re.compile(r"^\[ RUN +\] (\S+)$")


@dataclass
class Outcome:
    passed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)  # case: how
    left: list[str] = field(default_factory=list)  # for want of time


def cases_of(runner: Runner, program: str, log: str) -> list[str] | None:
    """The names of a program's cases. None: it cannot say them."""
    result = runner.run([program, "--gtest_list_tests"], log, 20)
    if not result.ok:
        return None
    cases, suite = [], ""
    with open(log, errors="replace") as output:
        for line in output:
            name = line.split("#")[0].rstrip()
            if name.startswith("  "):
                cases.append(suite + name.strip())
            elif name.endswith("."):
                suite = name
    return cases


class Program:
    """Runs the cases of one program.

    last: patterns of cases that run after all others, in one process, since they
    want a GPU to themselves.
    """

    def __init__(
        self,
        runner: Runner,
        clock: Clock,
        path: str,
        log_of: Callable[[str], str],
        name: str,
        processes: int = 1,
        last: tuple[str, ...] = (),
        environment: dict[str, str | None] | None = None,
        silence_s: float = SILENCE_S,
    ) -> None:
        self._runner, self._clock = runner, clock
        self._path, self._log_of, self._name = path, log_of, name
        self._processes, self._last = processes, last
        self._environment = environment
        self._silence_s = silence_s
        self._lock = threading.Lock()
        self._outcome = Outcome()

    def run(self, cases: list[str]) -> Outcome:
        late = [c for c in cases if any(fnmatch.fnmatch(c, p) for p in self._last)]
        early = [c for c in cases if c not in set(late)]
        shares = [early[i :: self._processes] for i in range(self._processes)]
        with ThreadPoolExecutor(self._processes) as pool:
            list(pool.map(self._run_share, range(self._processes), shares))
        self._run_share(self._processes, late)
        return self._outcome

    def _run_share(self, share: int, cases: list[str]) -> None:
        """Cases one after another, each process until its first failure."""
        attempt = 0
        while cases:
            if self._clock.stage_left() <= 1:
                with self._lock:
                    self._outcome.left += cases
                return
            now, later = _cut(cases)
            log = self._log_of(f"{self._name}.{share}.{attempt}")
            attempt += 1
            cases = self._run_process(now, log) + later

    def _run_process(self, cases: list[str], log: str) -> list[str]:
        """Returns the cases that are left."""
        result = self._runner.run(
            [self._path, "--gtest_filter=" + ":".join(cases), "--gtest_fail_fast"],
            log,
            self._clock.stage_left(),
            self._silence_s,
            self._environment,
        )
        done, begun = _read(log)
        with self._lock:
            outcome = self._outcome
            failed = next((c for c in cases if done.get(c) == "FAILED"), None)
            for case in cases:
                if done.get(case) == "OK":
                    outcome.passed.append(case)
                elif done.get(case) == "SKIPPED" and failed is None:
                    outcome.skipped.append(case)
            left = [c for c in cases if done.get(c) != "OK" and c != failed]
            if failed is not None:
                # After it GoogleTest skipped what it had not begun.
                outcome.failed[failed] = "failed"
                return left
            left = [c for c in left if done.get(c) != "SKIPPED"]
            if not left:
                return []
            # It ended within a case, or before the first one.
            ended_in = begun if begun in left else left[0]
            if result.status == KILLED and self._clock.stage_left() <= 1:
                outcome.failed[ended_in] = "had no time to end"
            elif result.status == KILLED:
                outcome.failed[ended_in] = "hangs"
            else:
                outcome.failed[ended_in] = f"ends the process ({result.status})"
            return [c for c in left if c != ended_in]


def _cut(cases: list[str]) -> tuple[list[str], list[str]]:
    """As many cases as one argument has room for, and the rest."""
    size = 0
    for at, case in enumerate(cases):
        size += len(case) + 1
        if size > LONGEST_FILTER and at > 0:
            return cases[:at], cases[at:]
    return cases, []


def _read(log: str) -> tuple[dict[str, str], str]:
    """What each case came to, and the one that was begun last."""
    done: dict[str, str] = {}
    begun = ""
    with open(log, errors="replace") as output:
        for line in output:
            if match := _CASE_DONE.match(line.rstrip()):
                done[match[2]] = match[1]
            elif match := _CASE_BEGUN.match(line.rstrip()):
                begun = match[1]
    return done, begun
