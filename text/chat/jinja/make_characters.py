"""Writes characters.inc: what Python's str methods know of code points.

    python3 make_characters.py > characters.inc

The sets are pairs (gap from the end of the range before, length), as
CodePointSet::FromGaps takes them. A mapping is runs of code points that are
all the same distance from what they become, first, last, stride, distance; and
those that become several.
"""

import sys
import unicodedata

CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def print_numbers(name, numbers):
    print(f"constexpr uint32_t {name}[] = {{")
    line = "   "
    for number in numbers:
        piece = f" {number},"
        if len(line) + len(piece) > 80:
            print(line)
            line = "   "
        line += piece
    if line.strip():
        print(line)
    print("};\n")


def print_set(name, contains):
    gaps, end, begin = [], 0, None
    for c in range(0x110001):
        has = c < 0x110000 and not 0xD800 <= c < 0xE000 and contains(chr(c))
        if has and begin is None:
            begin = c
        elif not has and begin is not None:
            gaps += [begin - end, c - begin]
            end, begin = c, None
    print_numbers(name, gaps)


def print_mapping(name, convert):
    runs, several = [], []
    for c in CODE_POINTS:
        to = convert(chr(c))
        if to == chr(c):
            continue
        if len(to) > 1:
            several += [c, *(ord(x) for x in to), *[0] * (3 - len(to))]
            continue
        distance = ord(to) - c
        if runs and runs[-1][3] == distance:
            first, last, stride, _ = runs[-1]
            if first == last and c - last in (1, 2):
                runs[-1] = (first, c, c - last, distance)
                continue
            if first != last and c - last == stride:
                runs[-1] = (first, c, stride, distance)
                continue
        runs.append((c, c, 1, distance))
    print(f"constexpr CaseRun k{name}Runs[] = {{")
    for run in runs:
        print("    {%d, %d, %d, %d}," % run)
    print("};\n")
    print_numbers(f"k{name}Several", several)


def is_cased(c):
    return (c + "a").title()[-1] == "a"


def is_case_ignorable(c):
    # Between a letter and a sigma such a character is passed over.
    sigma, final = "\u03a3", "\u03c2"
    return ("a" + c + sigma).lower()[-1] == final and (
        not is_cased(c) or (c + sigma).lower()[-1] != final
    )


print(f"// Written by make_characters.py; Unicode {unicodedata.unidata_version}.")
print("// clang-format off")
print_mapping("Upper", str.upper)
print_mapping("Title", str.title)
print_set("kPrintable", str.isprintable)
print_set("kAlpha", str.isalpha)
print_set("kDecimal", str.isdecimal)
print_set("kDigit", str.isdigit)
print_set("kNumeric", str.isnumeric)
print_set("kLowerLetters", str.islower)
print_set("kUpperLetters", str.isupper)
print_set("kTitleLetters", lambda c: c.istitle() and not c.isupper())
print_set("kCased", is_cased)
print_set("kCaseIgnorable", is_case_ignorable)
print("// clang-format on")
