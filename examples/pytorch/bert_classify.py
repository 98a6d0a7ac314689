"""Fine-tunes a BERT to say in which language some lines are written.

    python examples/pytorch/bert_classify.py [--model DIR] [--steps N]

bert_classify.md is its page.
"""

import random

import castor
import torch
import transformers

import shared

FOLDERS = ("base", "benchmarks", "docs", "examples", "tools")
LANGUAGES = {".cc": "C++", ".py": "Python", ".sh": "shell", ".md": "Markdown"}
LINES = 6  # of an excerpt
OF_EACH = 150
LENGTH = 64


def load_data():
    """Excerpts of this repository's files, each with the number of its language,
    and as many of each language."""
    root = shared.HERE.parents[1]
    draw = random.Random(1)
    data = []
    for k, suffix in enumerate(LANGUAGES):
        texts = []
        for folder in FOLDERS:
            for path in sorted((root / folder).glob(f"**/*{suffix}")):
                lines = path.read_text(encoding="utf-8").splitlines()
                lines = [line for line in lines if line.strip()]
                texts += [
                    "\n".join(lines[first : first + LINES])
                    for first in range(0, len(lines) - LINES, LINES)
                ]
        data += [(text, k) for text in draw.sample(texts, OF_EACH)]
    draw.shuffle(data)
    return data


def load_model(directory, vocabulary):
    if directory:
        return transformers.AutoModelForSequenceClassification.from_pretrained(
            directory, num_labels=len(LANGUAGES)
        )
    torch.manual_seed(1)
    return transformers.BertForSequenceClassification(
        transformers.BertConfig(
            vocab_size=vocabulary, hidden_size=192, num_hidden_layers=4,
            num_attention_heads=4, intermediate_size=768,
            max_position_embeddings=LENGTH, num_labels=len(LANGUAGES),
        )
    )


def main():
    options = shared.arguments(__doc__, "bert_classify", steps=60, batch=8).parse_args()
    data = load_data()
    held_out, data = data[: len(data) // 5], data[len(data) // 5 :]
    words = shared.Words([text for text, _ in data], options.model)

    def batch_of(rows):
        labels = torch.tensor([label for _, label in rows])
        return {**words.rows([text for text, _ in rows], LENGTH), "labels": labels}

    def accuracy(engine):
        engine.eval()
        right = 0
        for first in range(0, len(held_out), options.batch):
            batch = batch_of(held_out[first : first + options.batch])
            right += (engine(**batch).logits.argmax(-1) == batch["labels"]).sum().item()
        engine.train()
        return right / len(held_out)

    with castor.ZeroInit(options.config):
        model = load_model(options.model, words.size)
    draw = random.Random(2)
    with castor.initialize(model, options.config) as engine:
        print(f"of {len(held_out)} held-out excerpts {accuracy(engine):.0%} right")
        for step in range(1, options.steps + 1):
            batches = (
                batch_of(draw.sample(data, options.batch))
                for _ in range(engine.gradient_accumulation_steps)
            )
            loss = engine.train_batch(batches)
            print(f"step {step:>3}  loss {loss.item():.4f}")
        print(f"of {len(held_out)} held-out excerpts {accuracy(engine):.0%} right")
        shared.report(engine)
        if options.save:
            engine.save_pretrained(options.save)


if __name__ == "__main__":
    main()
