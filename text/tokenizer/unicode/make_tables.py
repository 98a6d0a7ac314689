#!/usr/bin/env python3
"""Writes tables.inc: what PyPI's `tokenizers` takes each code point for.

  pip install tokenizers==0.23.3
  python3 text/tokenizer/unicode/make_tables.py > text/tokenizer/unicode/tables.inc

The library is built from several crates, each with Unicode data of a version of
its own: its regular expressions are Oniguruma's, its normal forms those of
unicode-normalization-alignments, its punctuation that of unicode_categories, its
letter cases Rust's. So every table here is measured: the library is asked about
each code point. Python's own data serve only where a question needs a candidate
(which two code points might compose, which combining class a mark might have).
"""

import sys
import unicodedata

import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

# Surrogates are no characters.
ALL = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]

CATEGORIES = (
    "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp "
    "Cc Cf Cs Co Cn").split()
SCRIPTS = ("Arabic Bengali Cyrillic Devanagari Greek Han Hangul Hebrew Hiragana "
           "Katakana Latin Tamil Thai").split()


def kept_by(pre_tokenizer):
    """The code points that `pre_tokenizer`, which removes others, keeps."""
    kept = set()
    for i in range(0, len(ALL), 4096):
        block = ALL[i:i + 4096]
        for _, (begin, end) in pre_tokenizer.pre_tokenize_str(
                "".join(map(chr, block))):
            kept.update(block[begin:end])
    return kept


def matching(pattern):
    return set(ALL) - kept_by(pre_tokenizers.Split(Regex(pattern), "removed"))


def removed_by(normalizer):
    return {c for c in ALL if not normalizer.normalize_str(chr(c))}


def words():
    """What the regex crate's \\w matches: it stays with its neighbours."""
    ask = pre_tokenizers.Whitespace()
    return {c for c in ALL if len(ask.pre_tokenize_str(f"a{chr(c)}a")) == 1}


def mappings(normalizer):
    """{code point: sequence} where `normalizer` changes a single one."""
    result = {}
    for c in ALL:
        text = normalizer.normalize_str(chr(c))
        if text != chr(c):
            result[c] = [ord(x) for x in text]
    return result


def combining_classes(nfd):
    """{code point: class}, of those whose marks canonical ordering moves."""

    def swaps(a, b):
        return a != b and nfd.normalize_str(a + b) == b + a

    low, high = "\u0334", "\u0345"  # classes 1 and 240
    classes = {}
    for c in ALL:
        if nfd.normalize_str(chr(c)) != chr(c):
            continue
        if swaps(chr(c), low) or swaps(high, chr(c)):
            classes[c] = unicodedata.combining(chr(c))
    for c in (0x334, 0x345):
        classes[c] = unicodedata.combining(chr(c))
    # Candidates are as the library orders them, against each class.
    examples = {k: chr(c) for c, k in sorted(classes.items(), reverse=True)}
    for c, k in classes.items():
        for other, example in examples.items():
            assert swaps(chr(c), example) == (other < k), hex(c)
    return classes


def compositions(nfc):
    """{(a, b): c}, the pairs that compose."""
    result = {}
    for c in ALL:
        parts = unicodedata.decomposition(chr(c)).split()
        if len(parts) != 2 or parts[0].startswith("<"):
            continue
        a, b = (int(x, 16) for x in parts)
        if nfc.normalize_str(chr(a) + chr(b)) == chr(c):
            result[a, b] = c
    return result


def replace_all(keys):
    """A normalizer that writes "Z" for each grapheme cluster that starts with
    one of `keys` and has fewer than 6 bytes; made of a double-array trie in
    which each node's children have a block of 256 units and all keys one
    value, at 256."""
    tree = {}
    for key in keys:
        node = tree
        for byte in chr(key).encode():
            node = node.setdefault(byte, {})
    units, queue = [0] * 512, [(0, 0, tree)]
    units[256] = 1 << 31
    while queue:
        place, label, node = queue.pop()
        if not node:
            units[place] = label | 1 << 8 | (place ^ 256) << 10
            continue
        base = len(units)
        units += [0] * 256
        units[place] = label | (place ^ base) << 10
        queue += [(base ^ byte, byte, child) for byte, child in node.items()]
    trie = b"".join(unit.to_bytes(4, "little") for unit in units)
    return normalizers.Precompiled(
        len(trie).to_bytes(4, "little") + trie + b"Z\0")


def graphemes():
    """What a grapheme cluster of fewer than 6 bytes is made of; of longer ones
    the normalizer, the only one that asks, takes each code point by itself."""
    ask = replace_all(c for c in ALL if 0 < c < 0x10000).normalize_str

    def rest(c):  # what becomes of it by itself
        return "Z" if 0 < c < 0x10000 else chr(c)

    extend = {c for c in ALL if ask("a" + chr(c)) == "Z"}
    control = {c for c in ALL if 0 < c < 0x10000 and
               ask("\u0600" + chr(c)) == "ZZ"}
    prepend = {c for c in ALL if 0x80 <= c < 0x10000 and
               ask(chr(c) + "a") == "Z"}
    pictographic = {c for c in ALL if c not in extend and
                    ask("\u00a9\u200d" + chr(c)) == "ZZ" + rest(c)}
    return extend, control, prepend, pictographic


def emit(name, comment, numbers, kind="uint32_t"):
    print(f"\n// {comment}")
    print(f"constexpr {kind} {name}[] = {{")
    line = "   "
    for number in numbers:
        word = f" {number},"
        if len(line) + len(word) > 80:
            print(line)
            line = "   "
        line += word
    print(line.rstrip())
    print("};")


def ranges(members):
    """[begin, end) in order."""
    result = []
    for c in sorted(members):
        if result and result[-1][1] == c:
            result[-1][1] = c + 1
        else:
            result.append([c, c + 1])
    return result


def emit_set(name, comment, members):
    numbers, last = [], 0
    for begin, end in ranges(members):
        numbers += [begin - last, end - begin]
        last = end
    emit(name, comment + ": gap, length, gap, length, ...", numbers)


def emit_runs(name, comment, value_of):
    numbers, last = [], 0
    by_value = [(b, e, v) for v in sorted(set(value_of.values()))
                for b, e in ranges(c for c in value_of if value_of[c] == v)]
    for begin, end, value in sorted(by_value):
        numbers += [begin - last, end - begin, value]
        last = end
    emit(name, comment + ": gap, length, value, ...", numbers)


def emit_lower(lower):
    """Runs of code points, one after the other or every second one, with the
    same distance to their lower case."""
    runs = []
    for c, text in sorted(lower.items()):
        if len(text) != 1:
            continue
        delta = text[0] - c
        if runs and runs[-1][3] == delta:
            first, last, stride, _ = runs[-1]
            if c - last in (1, 2) and stride in (0, c - last):
                runs[-1][1:3] = [c, c - last]
                continue
        runs.append([c, c, 0, delta])
    emit("kLowercase", "first, last, stride, distance to the lower case",
         ["{%d, %d, %d, %d}" % (f, l, max(s, 1), d) for f, l, s, d in runs],
         "LowercaseRun")
    long = {c: text for c, text in lower.items() if len(text) != 1}
    assert long == {0x130: [0x69, 0x307]}, long


def emit_mappings(name, comment, table):
    numbers, last = [], 0
    for c, text in sorted(table.items()):
        numbers += [c - last, len(text), *text]
        last = c
    emit(name, comment + ": distance, count, code points, ...", numbers)


def main():
    print(f"""\
// Made by make_tables.py of tokenizers {tokenizers.__version__}; do not edit.
// Gaps and distances are from where the entry before ends or stands.""")
    category = {}
    for name in CATEGORIES:
        for c in matching(rf"\p{{{name}}}") if name != "Cs" else ():
            assert c not in category
            category[c] = CATEGORIES.index(name)
    assert len(category) == len(ALL)
    emit_runs("kCategories", "Oniguruma: categories as in " +
              "kCategoryNames (unicode_sets.cc)", category)
    emit_set("kOnigurumaWord", "Oniguruma: \\w", matching(r"\w"))
    emit_set("kOnigurumaSpace", "Oniguruma: \\s", matching(r"\s"))
    for script in SCRIPTS:
        emit_set(f"k{script}", f"Oniguruma: \\p{{{script}}}",
                 matching(rf"\p{{{script}}}"))
    emit_set("kWord", "Rust's regex: \\w", words())
    emit_set("kWhitespace", "Rust: char::is_whitespace",
             set(ALL) - kept_by(pre_tokenizers.WhitespaceSplit()))
    digits = pre_tokenizers.Digits(individual_digits=True)
    emit_set("kNumeric", "Rust: char::is_numeric",
             {c for c in ALL
              if len(digits.pre_tokenize_str("a" + chr(c))) == 2})
    emit_set("kPunctuation", "unicode_categories: is_punctuation, and ASCII's",
             set(ALL) - kept_by(pre_tokenizers.Punctuation("removed")))
    nfd, nfkd = normalizers.NFD(), normalizers.NFKD()
    decompositions = mappings(nfd)
    bert = dict(clean_text=False, handle_chinese_chars=False,
                strip_accents=False, lowercase=False)
    emit_set("kNonspacing", "unicode_categories: is_mark_nonspacing",
             removed_by(normalizers.BertNormalizer(
                 **{**bert, "strip_accents": True})) - decompositions.keys())
    emit_set("kOther", "unicode_categories: is_other, and what BERT removes",
             removed_by(normalizers.BertNormalizer(
                 **{**bert, "clean_text": True})))
    emit_set("kCombiningMark",
             "unicode-normalization-alignments: is_combining_mark",
             removed_by(normalizers.StripAccents()))
    emit_lower(mappings(normalizers.Lowercase()))
    hangul = range(0xAC00, 0xD7A4)
    emit_mappings("kCanonical", "canonical decompositions but Hangul's",
                  {c: t for c, t in decompositions.items() if c not in hangul})
    emit_mappings("kCompatible", "compatible ones that are not canonical",
                  {c: t for c, t in mappings(nfkd).items()
                   if decompositions.get(c) != t})
    emit_runs("kCombiningClasses", "canonical combining classes",
              combining_classes(nfd))
    last, numbers = 0, []
    for (a, b), c in sorted(compositions(normalizers.NFC()).items(),
                            key=lambda entry: entry[1]):
        numbers += [c - last, a, b]
        last = c
    emit("kCompositions", "compositions: distance, first, second", numbers)
    extend, control, prepend, pictographic = graphemes()
    emit_set("kGraphemeExtend", "unicode-segmentation: joins what is before it",
             extend)
    emit_set("kGraphemeControl", "unicode-segmentation: joins nothing", control)
    emit_set("kGraphemePrepend", "unicode-segmentation: joins what follows",
             prepend)
    emit_set("kPictographic", "unicode-segmentation: joined by ZWJ",
             pictographic)


if __name__ == "__main__":
    sys.exit(main())
