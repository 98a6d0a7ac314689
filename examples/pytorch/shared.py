"""What the examples share: arguments, text of this repository, a report."""

import argparse
import collections
import json
import re
from pathlib import Path

import torch
import transformers

HERE = Path(__file__).resolve().parent


def arguments(doc, name, steps, batch):
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--model", help="a directory of Hugging Face's")
    parser.add_argument("--config", default=str(HERE / f"{name}.json"))
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--batch", type=int, default=batch, help="of a micro batch")
    parser.add_argument("--save", help="a directory for the trained model")
    return parser


def paragraphs():
    """(page, text) of each paragraph of the pages in docs/."""
    pairs = []
    for page in sorted((HERE.parents[1] / "docs").glob("*.md")):
        for text in page.read_text(encoding="utf-8").split("\n\n"):
            if len(text.split()) >= 12 and not text.startswith(("```", "|")):
                pairs.append((page.stem, text))
    return pairs


class Words:
    """The most frequent words of some texts as tokens, or the tokenizer in a
    directory of Hugging Face's."""

    SPECIAL = ["[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]"]

    def __init__(self, texts, directory=None, size=2000):
        self.tokenizer = None
        if directory:
            self.tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
            self.size = len(self.tokenizer)
            self.mask = self.tokenizer.mask_token_id
            self.pad = self.tokenizer.pad_token_id
            if self.pad is None:
                self.pad = self.tokenizer.eos_token_id
            self.special = set(self.tokenizer.all_special_ids)
            return
        counts = collections.Counter(w for text in texts for w in self.split(text))
        frequent = [w for w, _ in counts.most_common(size - len(self.SPECIAL))]
        self.words = self.SPECIAL + frequent
        self.number = {word: i for i, word in enumerate(self.words)}
        self.size = len(self.words)
        self.pad, self.mask = 0, 3
        self.special = set(range(len(self.SPECIAL)))

    @staticmethod
    def split(text):
        return re.findall(r"\w+|[^\w\s]", text.lower())

    def ids(self, text):
        if self.tokenizer is not None:
            return self.tokenizer(text, add_special_tokens=False).input_ids
        return [self.number.get(word, 4) for word in self.split(text)]

    def row(self, text, length):
        """[length] ids: the text between what begins and ends it, and padding."""
        if self.tokenizer is not None:
            return self.tokenizer(
                text, truncation=True, max_length=length, padding="max_length"
            ).input_ids
        ids = [1, *self.ids(text)[: length - 2], 2]
        return ids + [self.pad] * (length - len(ids))

    def rows(self, texts, length):
        """input_ids and attention_mask, both [texts, length]."""
        ids = torch.tensor([self.row(text, length) for text in texts])
        return {"input_ids": ids, "attention_mask": (ids != self.pad).long()}

    def pair_rows(self, pairs, length):
        """input_ids, token_type_ids and attention_mask, each [pairs, length]: of a
        pair of texts that is too long, the longer text is cut."""
        if self.tokenizer is not None:
            return self.tokenizer(
                [first for first, _ in pairs], [second for _, second in pairs],
                truncation=True, max_length=length, padding="max_length",
                return_tensors="pt",
            ).data
        ids, types = [], []
        for first, second in (map(self.ids, pair) for pair in pairs):
            while len(first) + len(second) > length - 3:
                (first if len(first) > len(second) else second).pop()
            row = [1, *first, 2, *second, 2]
            ids.append(row + [self.pad] * (length - len(row)))
            second_begins = len(first) + 2
            types.append([int(second_begins <= i < len(row)) for i in range(length)])
        ids = torch.tensor(ids)
        return {
            "input_ids": ids,
            "token_type_ids": torch.tensor(types),
            "attention_mask": (ids != self.pad).long(),
        }


def config_with(path, settings):
    """The configuration in a JSON file, with settings like
    "memory.device_memory=64MiB", as castor train takes them by --set."""
    config = json.loads(Path(path).read_text(encoding="utf-8"))
    for setting in settings:
        key, _, value = setting.partition("=")
        *sections, name = key.split(".")
        inner = config
        for section in sections:
            inner = inner.setdefault(section, {})
        try:
            inner[name] = json.loads(value)
        except ValueError:
            inner[name] = value
    return config


def train(engine, micro_batches, loss_of):
    """The losses of the micro batches that are this rank's: ranks take them by
    turns."""
    losses = []
    for batch in micro_batches[engine.rank :: engine.world_size]:
        loss = loss_of(batch)
        engine.backward(loss)
        losses.append(loss.item())
        engine.step()
    return losses


def report(engine):
    """What the run took, in a line."""
    summary = engine.summary()
    mib = 1 << 20
    print(
        f"parameters {summary['parameters']:,}; device peak "
        f"{summary['device_peak_bytes'] / mib:.1f} of "
        f"{summary['device_budget_bytes'] / mib:.1f} MiB; the least that "
        f"does {summary['smallest_device_budget_bytes'] / mib:.1f} MiB; "
        f"{summary['h2d_bytes_per_step'] / mib:.1f} MiB to the device and "
        f"{summary['d2h_bytes_per_step'] / mib:.1f} MiB from it a step"
    )
