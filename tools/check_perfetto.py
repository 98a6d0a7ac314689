#!/usr/bin/env python3
"""Checks a file of `castor trace export --format perfetto`.

usage: tools/check_perfetto.py FILE.json [--trace-processor SHELL]

Reads it as the trace event format ("Trace Event Format", Google, 2016) and
Perfetto's importer say, with nothing of ours: every event has the keys and
types of its phase; slices of a thread nest; each arrow has both ends, in order,
inside slices of their threads at those times; counters are numbers; threads
with slices have names. Prints what there is, or the first thing that is wrong.

With --trace-processor it also loads the file with Perfetto's own
(trace_processor_shell), by the perfetto package, and compares its counts.
"""
import argparse
import collections
import json
import numbers
import sys

PHASES = {"M", "X", "s", "f", "C", "i"}


def fail(where, why):
    sys.exit(f"check_perfetto: {where}: {why}")


def number(event, key, where):
    value = event.get(key)
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        fail(where, f"{key} is {value!r}, no number")
    return value


def ticks(value):
    """Microseconds as whole nanoseconds."""
    return round(value * 1000)


def check_event(i, event):
    where = f"event {i}"
    if not isinstance(event, dict):
        fail(where, "is no object")
    phase = event.get("ph")
    if phase not in PHASES:
        fail(where, f"has the phase {phase!r}")
    if not isinstance(event.get("name"), str) or not event["name"]:
        fail(where, "has no name")
    for key in ("pid", "tid"):
        if not isinstance(event.get(key), int):
            fail(where, f"{key} is {event.get(key)!r}")
    if "args" in event and not isinstance(event["args"], dict):
        fail(where, "args is no object")
    if phase == "M":
        return where
    if number(event, "ts", where) < 0:
        fail(where, "is before the trace")
    if phase == "X" and number(event, "dur", where) < 0:
        fail(where, "ends before it starts")
    if phase in "sf" and not isinstance(event.get("id"), int):
        fail(where, f"is an arrow's end with the id {event.get('id')!r}")
    if phase == "f" and event.get("bp") != "e":
        fail(where, "is not tied to the slice around it")
    if phase == "C":
        for key, value in event["args"].items():
            number(event["args"], key, where)
    if phase == "i" and event.get("s") not in ("g", "p", "t"):
        fail(where, f"is an instant with the scope {event.get('s')!r}")
    return where


def check(path):
    with open(path, encoding="utf-8") as file:
        document = json.load(file)
    events = document.get("traceEvents")
    if not isinstance(events, list):
        fail(path, "has no list traceEvents")
    counts = collections.Counter()
    named, slices, arrows = set(), collections.defaultdict(list), {}
    for i, event in enumerate(events):
        where = check_event(i, event)
        counts[event["ph"]] += 1
        thread = (event["pid"], event["tid"])
        if event["ph"] == "M" and event["name"] == "thread_name":
            named.add(thread)
        elif event["ph"] == "X":
            start = ticks(event["ts"])
            slices[thread].append((start, start + ticks(event["dur"]), where))
        elif event["ph"] in "sf":
            key = (event.get("cat"), event["name"], event["id"])
            ends = arrows.setdefault(key, {})
            if event["ph"] in ends:
                fail(where, f"repeats the arrow {key}")
            ends[event["ph"]] = (ticks(event["ts"]), thread)

    for thread, list_ in slices.items():
        if thread not in named:
            fail(f"thread {thread}", "has slices and no name")
        list_.sort(key=lambda s: (s[0], -s[1]))
        open_ = []
        for start, end, where in list_:
            while open_ and open_[-1] <= start:
                open_.pop()
            if open_ and end > open_[-1]:
                fail(where, "overlaps a slice of its thread without nesting")
            if end > start:
                open_.append(end)

    queries = collections.defaultdict(list)
    for key, ends in arrows.items():
        if set(ends) != {"s", "f"}:
            fail(f"arrow {key}", "has one end")
        if ends["s"][0] > ends["f"][0]:
            fail(f"arrow {key}", "goes back in time")
        for time, thread in ends.values():
            queries[thread].append((time, key))
    for thread, list_ in queries.items():
        spans, at, reach = slices[thread], 0, -1
        for time, key in sorted(list_):
            while at < len(spans) and spans[at][0] <= time:
                reach = max(reach, spans[at][1])
                at += 1
            if reach <= time:
                fail(f"arrow {key}", f"has an end in no slice of {thread}")

    print(f"{path}: {counts['X']} slices on {len(slices)} threads, "
          f"{len(arrows)} arrows, {counts['C']} counter values, "
          f"{counts['i']} instants: well formed")
    return counts["X"], len(arrows)


def check_with_processor(path, shell, slices, arrows):
    from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig
    processor = TraceProcessor(
        trace=path, config=TraceProcessorConfig(bin_path=shell))

    def one(query):
        return next(iter(processor.query(query))).n

    found = (one("select count(*) n from slice s join thread_track t "
                 "on s.track_id = t.id"), one("select count(*) n from flow"))
    errors = one("select coalesce(sum(value), 0) n from stats "
                 "where severity = 'error'")
    if found != (slices, arrows) or errors:
        fail(path, f"the trace processor finds {found[0]} slices, {found[1]} "
             f"arrows and {errors} errors, expected {slices}, {arrows}, none")
    print(f"{path}: the trace processor agrees")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--trace-processor", metavar="SHELL")
    args = parser.parse_args()
    slices, arrows = check(args.file)
    if args.trace_processor:
        check_with_processor(args.file, args.trace_processor, slices, arrows)


if __name__ == "__main__":
    main()
