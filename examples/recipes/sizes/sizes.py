"""Plans each row of sizes.json and prints a table. See run.sh."""

import json
import subprocess
import sys

import t5


def plan(castor, folder, row):
    """The figures of `castor plan --json`, whether it fits or not."""
    model = row["model"]
    if model.endswith(".json"):
        model = f"{folder}/{model}"
    command = [castor, "plan", "--json", "--model", model, "--gpu", row["gpu"]]
    for option in ("ram", "host", "nodes", "gpus-per-node"):
        if option in row:
            command += [f"--{option}", str(row[option])]
    for key, value in row.get("set", {}).items():
        command += ["--set", f"{key}={value}"]
    done = subprocess.run(command, capture_output=True, text=True)
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError:
        sys.exit(f"sizes: {' '.join(command)} ended with {done.returncode}:\n{done.stderr}")


def gib(size):
    return f"{size / 2**30:.1f}"


def main():
    castor, folder, *output = sys.argv[1:]
    with open(f"{folder}/sizes.json") as file:
        rows = json.load(file)
    print(
        "| row | fits | device GiB, least that does | host GiB a machine "
        "| step, s | tokens/s | bound by |\n|---|---|---|---|---|---|---|"
    )
    for row in rows:
        if row["model"] in t5.SHAPES:
            figures = row["plan"] = t5.plan(row)
        else:
            figures = row["plan"] = plan(castor, folder, row)
        cells = [row["row"], "yes" if figures["fits"] else "no"]
        if figures["fits"]:
            host = figures.get("predicted_machine_host_bytes")
            cells += [
                gib(figures["predicted_device_peak_bytes"])
                + ", "
                + gib(figures["smallest_device_budget_bytes"]),
                gib(host or figures["predicted_host_peak_bytes"]),
            ]
            if "predicted_step_seconds" in figures:
                cells += [
                    f"{figures['predicted_step_seconds']:.3g}",
                    f"{figures['predicted_tokens_per_second']:.0f}",
                    str(figures["binds"]),
                ]
            else:
                cells += ["not foreseen"] * 3
        else:
            cells += [str(figures["binds"]), "", "", "", ""]
        print("| " + " | ".join(cells) + " |", flush=True)
    if output:
        with open(output[0], "w") as file:
            json.dump(rows, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
