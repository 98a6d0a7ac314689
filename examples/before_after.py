#!/usr/bin/env python3
"""Prints what an example's training has changed, and in how much memory.

usage: before_after.py DIR LABEL

DIR has summary.json of castor train, before.evaluation.json and
after.evaluation.json of castor evaluate, and may have before.text.json and
after.text.json of castor generate. LABEL says of what the loss is.
"""

import json
import os
import sys


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    folder, label = sys.argv[1:]

    def read(name):
        with open(os.path.join(folder, name + ".json"), encoding="utf-8") as file:
            return json.load(file)

    before, after = read("before.evaluation"), read("after.evaluation")
    width = max(34, len(label) + 1)
    print(f"\n{'':{width}}{'before':>12}{'after':>12}")
    print(f"{label:{width}}{before['loss']:12.4f}{after['loss']:12.4f}")
    print(f"{'perplexity':{width}}"
          f"{before['perplexity']:12.2f}{after['perplexity']:12.2f}")
    if os.path.exists(os.path.join(folder, "before.text.json")):
        for name in ("before", "after"):
            text = read(name + ".text")["text"]
            print(f"\n{name}:\n  " + text.replace("\n", "\n  "))
    run = read("summary")
    peak = run["device_peak_bytes"] / 2**20
    whole = run["unmanaged_device_bytes"] / 2**20
    print(f"\ntrained in {peak:.0f} MiB of device memory; with everything there it "
          f"takes {whole:.0f} MiB ({peak / whole:.0%})")


if __name__ == "__main__":
    main()
