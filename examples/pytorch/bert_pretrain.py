"""Pre-trains a BERT on masked words of the pages in docs/.

    python examples/pytorch/bert_pretrain.py [--model DIR] [--steps N]

bert_pretrain.md is its page.
"""

import castor
import torch
import transformers

import shared

LENGTH = 96


def load_model(directory, vocabulary):
    if directory:
        return transformers.AutoModelForMaskedLM.from_pretrained(directory)
    torch.manual_seed(1)
    return transformers.BertForMaskedLM(
        transformers.BertConfig(
            vocab_size=vocabulary, hidden_size=192, num_hidden_layers=4,
            num_attention_heads=4, intermediate_size=768,
            max_position_embeddings=LENGTH,
        )
    )


def masked(ids, words, draw):
    """Inputs and labels: of 15 % of the words, and at least one of each row, 80 %
    are masked, 10 % are replaced and 10 % stay, as in BERT's paper."""
    special = torch.isin(ids, torch.tensor(sorted(words.special)))
    score = torch.rand(ids.shape, generator=draw).masked_fill(special, 1)
    chosen = (score < 0.15) | (score == score.amin(1, keepdim=True))
    labels = torch.where(chosen, ids, -100)
    kind = torch.rand(ids.shape, generator=draw)
    other = torch.randint(0, words.size, ids.shape, generator=draw)
    inputs = torch.where(chosen & (kind < 0.8), words.mask, ids)
    inputs = torch.where(chosen & (kind >= 0.9), other, inputs)
    return inputs, labels


def main():
    options = shared.arguments(__doc__, "bert_pretrain", steps=40, batch=4).parse_args()
    texts = [text for _, text in shared.paragraphs()]
    words = shared.Words(texts, options.model)
    rows = words.rows(texts, LENGTH)
    draw = torch.Generator().manual_seed(2)

    def next_batch():
        chosen = torch.randint(0, len(texts), (options.batch,), generator=draw)
        inputs, labels = masked(rows["input_ids"][chosen], words, draw)
        return {
            "input_ids": inputs,
            "attention_mask": rows["attention_mask"][chosen],
            "labels": labels,
        }

    with castor.ZeroInit(options.config):
        model = load_model(options.model, words.size)
    with castor.initialize(model, options.config) as engine:
        for step in range(1, options.steps + 1):
            # As many labels in each micro batch are not to be had: each counts
            # for its share of the step's.
            batches = [next_batch() for _ in range(engine.gradient_accumulation_steps)]
            labelled = [(batch["labels"] != -100).sum().item() for batch in batches]
            total = 0.0
            for batch, count in zip(batches, labelled):
                loss = engine(**batch).loss
                engine.backward(loss, scale=count / sum(labelled))
                total += loss.item() * count / sum(labelled)
                engine.step()
            print(f"step {step:>3}  loss {total:.4f}")
        shared.report(engine)
        if options.save:
            engine.save_pretrained(options.save)


if __name__ == "__main__":
    main()
