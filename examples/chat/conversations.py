#!/usr/bin/env python3
"""Makes conversations of the Jargon File as Debian's package dict-jargon has it.

usage: conversations.py JARGON.DICT.DZ DIR

Writes DIR/train.jsonl and DIR/validation.jsonl (every twelfth term), records with
`messages` as OpenAI has them: somebody asks what a hacker means by a term, and the
assistant answers with the first paragraph of its entry. Entries that count several
meanings, or whose first paragraph has less than 60 or more than 230 characters,
are left out.
"""

import gzip
import json
import os
import re
import sys

# An entry: the term at the begin of a line; below it, set in by one space, how it is
# pronounced and what part of speech it is; then paragraphs that are set in by four.
ENTRY = re.compile(r"^(\S.*)\n(?:(?: \S.*)?\n)*((?: {4}.*\n)+)", re.MULTILINE)
# "[from the X community]" at the begin of a definition.
ORIGIN = re.compile(r"^\[[^\]]*\] *")
SHORTEST, LONGEST = 60, 230


def definitions(text):
    """(term, definition) of each entry, in the order of the file."""
    for entry in ENTRY.finditer(text):
        # Braces name other entries.
        definition = re.sub(r"\{\s*([^}]*?)\s*\}", r"\1", " ".join(entry[2].split()))
        definition = ORIGIN.sub("", definition)
        if (SHORTEST <= len(definition) <= LONGEST and definition[0].isupper()
                and definition.endswith(".")):
            yield entry[1].strip(), definition


def write(path, entries):
    """Writes the file whole or not at all."""
    with open(path + ".part", "w", encoding="utf-8") as file:
        for term, definition in entries:
            messages = [
                {"role": "user",
                 "content": f"What does a hacker mean by “{term}”?"},
                {"role": "assistant", "content": definition},
            ]
            file.write(json.dumps({"messages": messages}, ensure_ascii=False) + "\n")
    os.replace(path + ".part", path)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    dictionary, folder = sys.argv[1:]
    # dictzip's format is gzip's.
    with gzip.open(dictionary, "rt", encoding="utf-8") as file:
        entries = list(definitions(file.read()))
    if len(entries) < 300:
        sys.exit(f"conversations.py: {dictionary}: {len(entries)} short definitions "
                 "found, where 437 were expected; is it another edition?")
    write(os.path.join(folder, "validation.jsonl"), entries[::12])
    write(os.path.join(folder, "train.jsonl"),
          [entry for i, entry in enumerate(entries) if i % 12])
    print(f"chat: wrote {len(entries)} conversations to {folder}")


if __name__ == "__main__":
    main()
