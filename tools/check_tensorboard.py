#!/usr/bin/env python3
"""Checks what `castor train --tensorboard DIR` wrote with TensorBoard's reader.

usage: tools/check_tensorboard.py DIR SUMMARY...

SUMMARY are the files of --summary of the runs that wrote to DIR, in order, a
resumed one after the one that it went on from. Each step's loss, each
evaluation and the steps' numbers must be those of the summaries, to a float's
precision; where a run was resumed from a step before the former one's last, of
the later run.

Wants the tensorboard package; not part of the tests, which decode the files by
themselves.
"""
import json
import math
import pathlib
import struct
import sys

from tensorboard.backend.event_processing import event_accumulator

TAGS = {
    "train/loss", "train/learning_rate", "train/tokens_per_second",
    "train/step_seconds", "train/stall_seconds", "memory/device_bytes",
    "memory/device_peak_bytes", "memory/host_bytes",
    "bus/host_to_device_bytes", "bus/device_to_host_bytes",
}


def as_float(value):
    if value is None:  # not finite
        return math.nan
    return struct.unpack("f", struct.pack("f", value))[0]


def same(a, b):
    return a.keys() == b.keys() and all(
        a[k] == b[k] or math.isnan(a[k]) and math.isnan(b[k]) for k in a)


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    directory, summaries = sys.argv[1], sys.argv[2:]
    losses, evaluations = {}, {}
    scaled = False
    for path in summaries:
        summary = json.loads(pathlib.Path(path).read_text())
        first = summary["steps"] - len(summary["losses"]) + 1
        losses = {s: l for s, l in losses.items() if s < first}
        evaluations = {s: l for s, l in evaluations.items() if s < first}
        scaled = scaled or summary["precision"] == "fp16"
        for i, loss in enumerate(summary["losses"]):
            losses[first + i] = as_float(loss)
        for evaluation in summary["evaluations"]:
            evaluations[evaluation["step"]] = as_float(evaluation["loss"])

    reader = event_accumulator.EventAccumulator(
        directory, size_guidance={event_accumulator.SCALARS: 0})
    reader.Reload()
    tags = set(reader.Tags()["scalars"])
    wanted = TAGS | ({"validation/loss"} if evaluations else set())
    wanted |= {"train/loss_scale"} if scaled else set()
    if tags != wanted:
        sys.exit(f"check_tensorboard: tags {sorted(tags)}, "
                 f"expected {sorted(wanted)}")

    def read(tag):
        return {event.step: event.value for event in reader.Scalars(tag)}

    for tag in sorted(TAGS):
        if sorted(read(tag)) != sorted(losses):
            sys.exit(f"check_tensorboard: {tag} is not there for each step")
    if not same(read("train/loss"), losses):
        sys.exit("check_tensorboard: the losses differ from the summary's")
    if evaluations and read("validation/loss") != evaluations:
        sys.exit("check_tensorboard: the evaluations differ")
    print(f"check_tensorboard: {len(losses)} steps, {len(evaluations)} "
          f"evaluations, {len(tags)} tags: as the summaries say")


if __name__ == "__main__":
    main()
