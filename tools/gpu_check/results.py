"""The results: report.txt, which is read first, and one archive of all output."""

from __future__ import annotations

import datetime
import os
import shutil
import tarfile

ARCHIVE = "logs.tar.gz"
# Lines at the end that whoever sees no more than these should have.
LAST_ROWS = 30


class Results:
    """Rows as they come. What earlier runs left in `folder` stays.

    Output lies in a temporary folder while programs run. `pack` puts it into
    `folder`, which has never more than a few files.
    """

    def __init__(self, folder: str, scratch: str) -> None:
        self.folder = folder
        self.logs = os.path.join(scratch, "logs")
        os.makedirs(self.logs)
        os.makedirs(folder, exist_ok=True)
        archive = os.path.join(folder, ARCHIVE)
        if os.path.exists(archive):
            with tarfile.open(archive) as earlier:
                earlier.extractall(scratch)
        self.failed = 0
        self._rows: list[tuple[bool, str]] = []

    def log(self, name: str) -> str:
        return os.path.join(self.logs, name.replace("/", ".") + ".log")

    def say(self, line: str) -> None:
        """A line of the report, printed as well."""
        print(line, flush=True)
        with open(os.path.join(self.folder, "report.txt"), "a") as report:
            report.write(line + "\n")

    def row(self, name: str, outcome: str, detail: str, failed: bool = False) -> None:
        line = f"{name:<56} {outcome:<14} {detail}".rstrip()
        self.failed += failed
        self._rows.append((failed, line))
        self.say(line)

    def show(self, name: str, last_lines: int | None = None) -> None:
        """The output of a check, in the report: all of it or its last lines."""
        try:
            with open(self.log(name), errors="replace") as output:
                lines = output.read().splitlines()
        except OSError:
            return
        # Where a hung program stood is long, and in the archive.
        for at, line in enumerate(lines):
            if last_lines is not None and line.startswith("gpu_check: process "):
                lines = lines[:at]
                break
        for line in lines[-last_lines:] if last_lines is not None else lines:
            self.say("    " + line)

    def pack(self) -> None:
        """The output so far, as the archive. A part is never taken for the whole."""
        part = os.path.join(self.folder, ARCHIVE + ".part")
        with tarfile.open(part, "w:gz") as archive:
            archive.add(self.logs, "logs")
        os.replace(part, os.path.join(self.folder, ARCHIVE))

    def keep(self, path: str) -> None:
        """A file that a later run can be given."""
        shutil.copy(path, self.folder)

    def print_last(self) -> None:
        """The rows once more, those of failures first where there are too many."""
        rows = sorted(self._rows, key=lambda row: not row[0])[:LAST_ROWS]
        chosen = {line for _, line in rows}
        for _, line in self._rows:
            if line in chosen:
                print(line)


def now() -> str:
    utc = datetime.datetime.now(datetime.timezone.utc)
    return utc.strftime("%Y-%m-%d %H:%M:%S UTC")
