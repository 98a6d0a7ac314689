"""Pre-trains a BERT on masked words and next sentences, as DeepSpeed's tutorial does.

    python examples/recipes/deepspeed_bert/pretrain.py --deepspeed_config FILE

README.md is its page.
"""

import argparse
import json
import random
import re
import sys
from pathlib import Path

import castor
import torch
import transformers

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "pytorch"))
import shared
from bert_pretrain import masked

SHAPES = {
    "small": dict(
        hidden_size=128, num_hidden_layers=4, num_attention_heads=4,
        intermediate_size=512,
    ),
    "large": dict(
        hidden_size=1024, num_hidden_layers=24, num_attention_heads=16,
        intermediate_size=4096,
    ),
}


def parse_arguments(given):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--deepspeed_config")
    add("--only_files", metavar="FILE",
        help="writes the rows of max_steps steps of 8, as castor train reads them, "
        "and ends")
    add("--set", action="append", default=[], metavar="KEY=VALUE",
        help="replaces or adds a key of the configuration")
    add("--text", help="a sentence a line, an empty line after each document; "
        "without it the pages in docs/")
    add("--shape", choices=SHAPES, default="small")
    add("--tokenizer", metavar="DIR", help="Hugging Face's directory with a BERT's "
        "tokenizer; without it tokens are the text's most frequent words")
    add("--max_seq_length", type=int, default=128)
    add("--max_steps", type=int, default=30, help="also counts loaded steps")
    add("--output_dir", default="out/deepspeed_bert")
    add("--job_name", default="bert", help="the tag under which to save")
    add("--load_checkpoint_id", help="the tag in output_dir to go on from")
    options = parser.parse_args(given)
    if not (options.deepspeed_config or options.only_files):
        parser.error("give --deepspeed_config FILE")
    return options


class Pairs:
    """Pairs of texts, of which the second follows on the first or does not."""

    def __init__(self, path, tokenizer=None):
        if path:
            texts = Path(path).read_text(encoding="utf-8").strip().split("\n\n")
            documents = [text.splitlines() for text in texts]
        else:
            pages = {}
            for page, text in shared.paragraphs():
                sentences = re.split(r"(?<=[.!?])\s+", text.strip())
                pages.setdefault(page, []).extend(sentences)
            documents = list(pages.values())
        self.documents = [document for document in documents if len(document) > 1]
        if len(self.documents) < 2:
            raise SystemExit(
                f"pretrain: {path} has fewer than two documents of several "
                "sentences; put an empty line between documents"
            )
        texts = (s for document in documents for s in document)
        self.words = shared.Words(texts, tokenizer)

    def draw(self, draw, length):
        """(first, second, 1 if the second is another document's else 0), as long
        as rows of `length` tokens take."""

        def sentences(document, begin):
            end, count = begin, 0
            while end < len(document) and count < length // 2:
                count += len(self.words.split(document[end]))
                end += 1
            return " ".join(document[begin:end]), end

        document = draw.choice(self.documents)
        first, end = sentences(document, draw.randrange(len(document) - 1))
        is_other = end == len(document) or draw.random() < 0.5
        if is_other:
            others = [each for each in self.documents if each is not document]
            document = draw.choice(others)
            end = draw.randrange(len(document))
        return first, sentences(document, end)[0], int(is_other)

    def batch(self, index, size, length):
        """The inputs of micro batch `index` of a run."""
        draw = random.Random(index)
        drawn = [self.draw(draw, length) for _ in range(size)]
        batch = self.words.pair_rows([pair[:2] for pair in drawn], length)
        batch["input_ids"], batch["labels"] = masked(
            batch["input_ids"], self.words, torch.Generator().manual_seed(index)
        )
        batch["next_sentence_label"] = torch.tensor([pair[2] for pair in drawn])
        return batch


def write_rows(pairs, path, steps, length, size=8):
    """The rows of so many batches, a line each: what is masked is masked already."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        for index in range(steps):
            batch = pairs.batch(index, size, length)
            for row in range(size):
                count = int(batch["attention_mask"][row].sum())
                line = {
                    key: batch[key][row][:count].tolist()
                    for key in ("input_ids", "token_type_ids", "labels")
                }
                line["next_sentence_label"] = int(batch["next_sentence_label"][row])
                file.write(json.dumps(line) + "\n")
    print(f"{path}: {steps * size} rows, {pairs.words.size} words")


def load_model(shape, vocabulary):
    torch.manual_seed(1)
    return transformers.BertForPreTraining(
        transformers.BertConfig(vocab_size=vocabulary, **SHAPES[shape])
    )


def groups_of(model):
    """Biases and norms do not decay."""
    groups = {True: [], False: []}
    for name, parameter in model.named_parameters():
        groups["bias" not in name and "LayerNorm" not in name].append(parameter)
    return [{"params": groups[True]}, {"params": groups[False], "weight_decay": 0.0}]


def main(given=None):
    options = parse_arguments(given)
    pairs = Pairs(options.text, options.tokenizer)
    if options.only_files:
        write_rows(
            pairs, options.only_files, options.max_steps, options.max_seq_length
        )
        return []
    model = load_model(options.shape, pairs.words.size)
    config = shared.config_with(options.deepspeed_config, options.set)
    restart = config.get("scheduler", {}).get("params", {}).get("restart_step", 0)
    engine, _, _, _ = castor.deepspeed_initialize(
        model=model, model_parameters=groups_of(model), config=config
    )
    losses = []
    with engine:
        if options.load_checkpoint_id:
            # The next phase has another learning rate and schedule.
            _, state = engine.load_checkpoint(
                options.output_dir, options.load_checkpoint_id, changed=True
            )
            print(f"loaded {options.load_checkpoint_id}: {state}")
            if engine.global_steps < restart:
                raise SystemExit(
                    f"pretrain: scheduler.params.restart_step is {restart}, and "
                    f"{options.load_checkpoint_id} has {engine.global_steps} steps; "
                    f"give --set scheduler.params.restart_step={engine.global_steps}"
                )
        size = engine.train_micro_batch_size_per_gpu()
        micro_batches = engine.gradient_accumulation_steps()
        while engine.global_steps < options.max_steps:
            first = engine.global_steps * micro_batches
            rate, total = engine.get_lr()[0], 0.0
            for micro_batch in range(first, first + micro_batches):
                index = micro_batch * engine.world_size + engine.rank
                loss = engine(**pairs.batch(index, size, options.max_seq_length)).loss
                engine.backward(loss)
                total += loss.item() / micro_batches
                engine.step()
            losses.append(total)
            if engine.rank == 0:
                print(f"step {engine.global_steps:>3}  loss {total:.4f}  lr {rate:.3g}")
        engine.save_checkpoint(
            options.output_dir, options.job_name,
            {"steps": engine.global_steps, "max_seq_length": options.max_seq_length},
        )
        if engine.rank == 0:
            shared.report(engine)
    return losses


if __name__ == "__main__":
    main()
