#!/usr/bin/env python3
"""How well `castor plan --search` foresees steps on this machine's processors.

    benchmarks/search_accuracy.py CASTOR [--steps 16] [--rounds 2]
        [--budgets unlimited,64MiB] [--rows 10] [--machine FILE | --no-row]

Measures this machine's row (`castor info --measure`), has the search propose
configurations of a small GPT-2 with it in five device budgets (or those that
are given), up to ten in each, and trains every one of them in each round,
forwards and backwards in turns. A step took what the median step of a run's
second half took: in the first half the run makes its plans.

Of each configuration the first table has the predicted step, the measured one
(the median over the rounds, and the least), their ratios, what the last run
foresaw of itself at its end, and how far the device's peak was from what the
row said. The second table has what the row said that compute, copies each way
and the host's updates work in a step, each beside what the run measured of
them, the time that compute waited, and the numbers of blocks whose activations
are kept: it tells which part of a step was foreseen badly.

Then come how many ratios are within a tenth of 1, and within a tenth of their
median, and for each budget how much slower the search's first row was than the
fastest of the rows. The goals are all ratios, and at most 5 %. The script wants
a machine that does nothing else. Others make all steps longer, so the load is
printed, the least round counts besides the median, and the median of the ratios
tells what others took from errors of the prediction itself.

--rows N: of each budget, the first N rows alone. --machine FILE: takes that row
instead of measuring one. --no-row: the search takes the speeds that it has for
every host, for comparison.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

BUDGETS = ("unlimited", "64MiB", "48MiB", "32MiB", "24MiB")
CONFIG = {
    "model": {"type": "gpt2", "n_layer": 6, "n_head": 4, "n_embd": 256,
              "n_positions": 128, "vocab_size": 256},
    "data": {"train": "text.txt", "sequence_length": 128, "validation_fraction": 0.0},
    "steps": 1, "seed": 1, "checkpoint": False, "train_batch_size": 8,
    "gradient_clipping": 1.0,
    "device": {"type": "host"},
}


def run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    return done.stdout


def sets(settings: list[str]) -> list[str]:
    return [word for setting in settings for word in ("--set", setting)]


@dataclasses.dataclass
class Row:
    """A row of a search, and what the runs of it took."""
    budget: str
    settings: list[str]
    plan: dict  # the document of its plan
    steps: list[float] = dataclasses.field(default_factory=list)  # a run each
    summary: dict = dataclasses.field(default_factory=dict)  # of the last run

    @property
    def predicted(self) -> float:
        return self.plan["predicted_step_seconds"]

    @property
    def peak_error(self) -> int:
        return (self.summary["device_peak_bytes"] -
                self.plan["predicted_device_peak_bytes"])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("castor")
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--budgets", default=",".join(BUDGETS))
    parser.add_argument("--rows", type=int, default=10)
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--machine")
    source.add_argument("--no-row", action="store_true")
    arguments = parser.parse_args()
    castor = str(pathlib.Path(arguments.castor).resolve())
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        (work / "text.txt").write_text("what is learned here does not matter. " * 20000)
        config = work / "run.json"
        config.write_text(json.dumps(CONFIG))
        machine = []
        if not arguments.no_row:
            row = (pathlib.Path(arguments.machine).read_text()
                   if arguments.machine else run([castor, "info", "--measure"]))
            print(row, end="")
            (work / "this.json").write_text(row)
            machine = ["--host", "this", "--machine", str(work / "this.json")]
        rows: list[Row] = []
        for budget in arguments.budgets.split(","):
            its = [f"memory.device_memory={budget}"]
            document = json.loads(run(
                [castor, "plan", str(config), "--search", "--json", *machine, *sets(its)]))
            rows += [Row(budget, its + plan["settings"], plan)
                     for plan in document["search"]["rows"][:arguments.rows]]
        own = 0  # peaks that were what the run's own plan foresaw
        for turn in range(arguments.rounds):
            print(f"round {turn + 1}, load {os.getloadavg()[0]:.1f}", flush=True)
            for row in rows[::-1] if turn % 2 else rows:
                train(castor, config, row, arguments.steps)
                own += (row.summary["device_peak_bytes"] ==
                        row.summary["predicted_device_peak_bytes"])
        report(rows)
        print(f"peaks as the run's own plan foresaw: {own} of "
              f"{len(rows) * arguments.rounds}")


def train(castor: str, config: pathlib.Path, row: Row, steps: int) -> None:
    summary, log = config.parent / "summary.json", config.parent / "log.jsonl"
    log.unlink(missing_ok=True)
    run([castor, "train", str(config), "--summary", str(summary), "--log-json",
         str(log), *sets(row.settings + [f"steps={steps}"])])
    row.summary = json.loads(summary.read_text())
    took = [json.loads(line)["seconds"] for line in log.read_text().splitlines()]
    row.steps.append(statistics.median(took[len(took) // 2:]))


def report(rows: list[Row]) -> None:
    print(f"{'row':>3} {'predicted':>10} {'median':>8} {'least':>8} {'ratio':>6} "
          f"{'of least':>8} {'own':>8} {'peak':>8}  settings")
    for i, row in enumerate(rows):
        median, least = statistics.median(row.steps), min(row.steps)
        print(f"{i:3} {row.predicted:10.4f} {median:8.4f} {least:8.4f} "
              f"{row.predicted / median:6.2f} {row.predicted / least:8.2f} "
              f"{row.summary['predicted_step_seconds']:8.4f} "
              f"{row.peak_error:+8d}  {' '.join(row.settings)}")
    parts = (("compute", "compute"), ("to device", "bus_to_device"),
             ("from device", "bus_from_device"), ("host", "host"))
    print("milliseconds of a step, predicted and measured:\n" + f"{'row':>3} " +
          " ".join(f"{name:>15}" for name, _ in parts) +
          f" {'waits':>8} {'blocks kept':>12}")
    for i, row in enumerate(rows):
        cells = []
        for _, key in parts:
            cells.append(" ".join(
                f"{1e3 * of['busy'][key] * of['predicted_step_seconds']:7.1f}"
                for of in (row.plan, row.summary)))
        print(f"{i:3} " + " ".join(cells) +
              f" {1e3 * row.summary['stall_seconds_per_step']:8.1f} "
              f"{row.plan['kept_blocks']:4} and {row.summary['kept_blocks']:3}")
    for name, of in (("median", statistics.median), ("least", min)):
        steps = [of(row.steps) for row in rows]
        ratios = [row.predicted / step for row, step in zip(rows, steps)]
        usual = statistics.median(ratios)
        print(f"by the {name}: within a tenth "
              f"{sum(0.9 <= ratio <= 1.1 for ratio in ratios)} of {len(rows)}, "
              f"of their median {usual:.2f} "
              f"{sum(0.9 <= ratio / usual <= 1.1 for ratio in ratios)}")
        for budget in dict.fromkeys(row.budget for row in rows):
            its = [step for row, step in zip(rows, steps) if row.budget == budget]
            print(f"  {budget}: the first row took {its[0] / min(its):.3f} times "
                  f"the fastest of {len(its)}")
    print(f"peaks as the row said: "
          f"{sum(row.peak_error == 0 for row in rows)} of {len(rows)}")


if __name__ == "__main__":
    main()
