#!/usr/bin/env python3
"""Solves what `accumulation --programs FOLDER` wrote, by HiGHS, and prints the
bytes that plans move a step over the least that any plan moves, in payloads of
the model: to the device, from it, and both together over the whole-numbered
program's least. Where that is not found within SECONDS, the best bound that was
stands for it, and the last column says by how much the best point found is
above it. Wants `pip install highspy`.

    accumulation_bound.py FOLDER [--integer SECONDS]
"""
import argparse
import csv
import math
import os

import highspy


def solve(path, seconds):
    """The least, what a best point moves each way, and that point's sum."""
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("mip_rel_gap", 1e-3)
    solver.setOptionValue("time_limit", seconds)
    solver.readModel(path)
    solver.run()
    values = solver.getSolution().col_value
    least = solver.getInfo().mip_dual_bound
    if not math.isfinite(least):  # there was nothing left to search
        least = values[0]
    return least, values[1], values[2], values[0]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--integer", type=float, metavar="SECONDS", default=30)
    options = parser.parse_args()
    with open(os.path.join(options.folder, "plans.tsv"), encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    print("\t".join(["budget", "A", "h2d", "least", "d2h", "least", "both",
                     "least", "over it", "unproven"]))
    within = 0
    for row in rows:
        least, h2d, d2h, found = solve(
            os.path.join(options.folder, row["program"]), options.integer)
        payload = float(row["payload MiB"])
        moved = [float(row["h2d MiB"]), float(row["d2h MiB"])]
        shown = [moved[0], h2d, moved[1], d2h, sum(moved), least]
        ratio = sum(moved) / least if least > 0 else 1.0
        within += ratio <= 1.05
        print("\t".join([row["budget"], row["A"]] +
                        [f"{mib / payload:.3f}" for mib in shown] +
                        [f"{ratio:.3f}", f"{found / least - 1:.3f}"
                         if least > 0 else "0"]), flush=True)
    print(f"at most 1.05 of the least in {within} of {len(rows)}")


if __name__ == "__main__":
    main()
