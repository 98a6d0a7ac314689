"""Trains a BERT to answer yes or no to questions on passages, as BMTrain's example
on BoolQ does.

    python examples/recipes/bmtrain_boolq/boolq.py --data DIR [--model DIR]

README.md is its page.
"""

import argparse
import json
import random
import sys
from pathlib import Path

import castor
import torch
import transformers

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "pytorch"))
import shared

SMALL = dict(
    hidden_size=128, num_hidden_layers=4, num_attention_heads=4, intermediate_size=512
)


def parse_arguments(given):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--data", required=True, help="a folder with BoolQ's train.jsonl and val.jsonl; "
        "without them, such files are made there of the pages in docs/")
    add("--model", help="a directory of Hugging Face's; else a small BERT")
    add("--config", default=str(HERE / "boolq.json"))
    add("--set", action="append", default=[], metavar="KEY=VALUE",
        help="replaces or adds a key of the configuration")
    add("--epochs", type=int, default=5)
    add("--max-length", type=int, default=512)
    add("--rows", type=int, default=640, help="to make, if there are no files")
    add("--only-files", action="store_true", help="makes the files, and ends")
    add("--save", help="a directory for the trained model's checkpoint")
    return parser.parse_args(given)


def make_files(folder, rows):
    """A stand-in for BoolQ: whether a passage has a word that is asked for."""
    draw = random.Random(1)
    passages = [" ".join(text.split()[:20]) for _, text in shared.paragraphs()]
    words = sorted({w for p in passages for w in shared.Words.split(p) if len(w) > 5})
    folder.mkdir(parents=True, exist_ok=True)
    for name, count in (("train", rows), ("val", rows // 5)):
        with open(folder / f"{name}.jsonl", "w", encoding="utf-8") as file:
            for index in range(count):
                passage = draw.choice(passages)
                here = [w for w in shared.Words.split(passage) if len(w) > 5]
                label = index % 2 == 0 and bool(here)
                word = draw.choice(here if label else words)
                row = {
                    "question": f"is there a word of {word}", "passage": passage,
                    "idx": index, "label": label or word in here,
                }
                file.write(json.dumps(row) + "\n")


def load_rows(path):
    """BoolQ's rows; of those without a label nothing is learned."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [(r["question"], r["passage"], int(r.get("label", -100))) for r in rows]


class BertModel(torch.nn.Module):
    """Two logits of each pair, [pairs, 2]."""

    def __init__(self, bert):
        super().__init__()
        self.bert = bert
        self.dense = torch.nn.Linear(bert.config.hidden_size, 2)

    def forward(self, **inputs):
        return self.dense(self.bert(**inputs).pooler_output)


def load_model(directory, vocabulary):
    torch.manual_seed(1)
    if directory:
        return BertModel(transformers.BertModel.from_pretrained(directory))
    config = transformers.BertConfig(vocab_size=vocabulary, **SMALL)
    return BertModel(transformers.BertModel(config))


def batches(rows, words, length, size):
    """(inputs, labels [size]) of the rows in their order; the last may be smaller."""
    for first in range(0, len(rows), size):
        chosen = rows[first : first + size]
        inputs = words.pair_rows([row[:2] for row in chosen], length)
        yield inputs, torch.tensor([row[2] for row in chosen])


def shuffled(rows, epoch, step_rows):
    """The rows in the epoch's order, as many as whole steps take."""
    order = random.Random(epoch).sample(rows, len(rows))
    return order[: len(rows) - len(rows) % step_rows]


def main(given=None):
    options = parse_arguments(given)
    folder = Path(options.data)
    if not (folder / "train.jsonl").exists():
        make_files(folder, options.rows)
    if options.only_files:
        return []
    train, held_out = (load_rows(folder / f"{name}.jsonl") for name in ("train", "val"))
    words = shared.Words((text for row in train for text in row[:2]), options.model)
    config = shared.config_with(options.config, options.set)
    model = load_model(options.model, words.size)
    cross_entropy = torch.nn.CrossEntropyLoss(ignore_index=-100)
    losses = []
    with castor.initialize(model, config) as engine:

        def loss_of(inputs, labels):
            return cross_entropy(model(**inputs), labels)

        def evaluate(when):
            engine.eval()
            right = 0
            for inputs, labels in batches(held_out, words, options.max_length, 32):
                right += (engine(**inputs).argmax(-1) == labels).sum().item()
            engine.train()
            if engine.rank == 0:
                share = right / len(held_out)
                print(f"{when}: of {len(held_out)} questions {share:.1%} right")

        evaluate("before")
        step_rows = config["train_batch_size"]
        size = step_rows // engine.gradient_accumulation_steps // engine.world_size
        for epoch in range(1, options.epochs + 1):
            rows = shuffled(train, epoch, step_rows)
            micro_batches = list(batches(rows, words, options.max_length, size))
            losses += shared.train(
                engine, micro_batches, lambda batch: engine.compute(loss_of, *batch)
            )
            evaluate(f"epoch {epoch}, loss {losses[-1]:.4f}")
        if engine.rank == 0:
            shared.report(engine)
        if options.save:
            engine.save_checkpoint(options.save, {"epochs": options.epochs})
    return losses


if __name__ == "__main__":
    main()
