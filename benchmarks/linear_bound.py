#!/usr/bin/env python3
"""Solves what linear_bound_instances wrote, by HiGHS, and prints how far plans
are above the bound: our simulated step over the least of the linear relaxation,
and with --integer SECONDS over the best bound of the whole-numbered program that
is found in that time. Wants `pip install highspy`.

    linear_bound.py FOLDER [--integer SECONDS]
"""
import argparse
import csv
import os
import statistics

import highspy


def least_ms(path, integer_s):
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    if integer_s is None:
        solver.setOptionValue("solve_relaxation", True)
        # Three times as fast as the simplex method, to eight digits.
        solver.setOptionValue("solver", "ipm")
        solver.setOptionValue("run_crossover", "off")
    else:
        solver.setOptionValue("time_limit", integer_s)
    solver.readModel(path)
    solver.run()
    info = solver.getInfo()
    if integer_s is not None:
        return info.mip_dual_bound
    status = solver.modelStatusToString(solver.getModelStatus())
    if status != "Optimal":
        raise SystemExit(f"linear_bound: {path}: {status}")
    return info.objective_function_value


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--integer", type=float, metavar="SECONDS")
    options = parser.parse_args()
    ratios = []
    slower = 0
    with open(os.path.join(options.folder, "plans.tsv"), encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    policies = list(rows[0])[3:]
    print("\t".join(["step", "budget", "bound ms"] + policies +
                    (["gap"] if options.integer else [])))
    for row in rows:
        path = os.path.join(options.folder, row["program"])
        bound = least_ms(path, None)
        shown = [row["step"], row["budget"], f"{bound:.3f}"]
        shown += [f"{float(row[policy]) / bound:.3f}" for policy in policies]
        if options.integer:
            shown.append(f"{least_ms(path, options.integer) / bound:.3f}")
        print("\t".join(shown), flush=True)
        ratios.append(float(row["auto"]) / bound)
        # Two steps that differ in the simulator's rounding are alike.
        slower += any(float(row["auto"]) > float(row[policy]) * (1 + 1e-4)
                      for policy in policies)
    print(f"auto over the bound: median {statistics.median(ratios):.3f}, "
          f"at most 1.05 in {sum(r <= 1.05 for r in ratios)} of {len(ratios)}, "
          f"at worst {max(ratios):.3f}; slower than another policy in {slower}")


if __name__ == "__main__":
    main()
