"""Trains a T5 on train.src and train.tgt, as FlagAI's example does.

    python examples/recipes/flagai_t5/train.py DIR [--model_dir=DIR] [--name=value ...]

README.md is its page.
"""

import argparse
import random
import sys
from pathlib import Path

import torch
import transformers

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "pytorch")]
import shared
from t5_seq2seq import aloud
from trainer import Trainer

LENGTH = 1024
SHAPE = dict(d_model=128, d_kv=32, d_ff=512, num_layers=3, num_heads=4)


class MyTrainer(Trainer):
    def forward_step(self, data, model, mems):
        outputs = model(**data)
        return {"loss": outputs.loss, "logits": outputs.logits}


def make_files(folder, rows=250):
    """Numbers in figures, and in words."""
    draw = random.Random(1)
    numbers = [draw.randrange(10 ** draw.randint(1, 6)) for _ in range(rows)]
    folder.mkdir(parents=True, exist_ok=True)
    sources = "".join(" ".join(str(number)) + "\n" for number in numbers)
    targets = "".join(aloud(number) + "\n" for number in numbers)
    (folder / "train.src").write_text(sources, encoding="utf-8")
    (folder / "train.tgt").write_text(targets, encoding="utf-8")


def load_pairs(folder):
    """(source, target) of each line; the first 80 % are to train on."""
    sources, targets = (
        (folder / name).read_text(encoding="utf-8").lower().splitlines()
        for name in ("train.src", "train.tgt")
    )
    if len(sources) != len(targets):
        raise SystemExit(
            f"train: {folder} has {len(sources)} lines in train.src and "
            f"{len(targets)} in train.tgt; give each source its target"
        )
    pairs = list(zip(sources, targets))
    return pairs[: len(pairs) * 8 // 10], pairs[len(pairs) * 8 // 10 :]


def load_model(vocabulary, directory=None):
    torch.manual_seed(1)
    if directory:
        return transformers.T5ForConditionalGeneration.from_pretrained(directory)
    return transformers.T5ForConditionalGeneration(
        transformers.T5Config(vocab_size=vocabulary, decoder_start_token_id=0, **SHAPE)
    )


def collate(words):
    """Inputs and labels, as long as the longest row."""

    def my_collate_fn(pairs):
        longest = [
            min(LENGTH, 2 + max(len(words.ids(pair[i])) for pair in pairs)) for i in (0, 1)
        ]
        data = words.rows([source for source, _ in pairs], longest[0])
        labels = words.rows([target for _, target in pairs], longest[1])["input_ids"]
        return {**data, "labels": labels.masked_fill(labels == words.pad, -100)}

    return my_collate_fn


def main(given=None):
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], allow_abbrev=False,
        epilog="All arguments of FlagAI's trainer are taken, too, as --name=value: "
        "trainer.py has their names and defaults.",
    )
    parser.add_argument("data", metavar="DIR", help="the folder of train.src and "
        "train.tgt; without them numbers are written there")
    parser.add_argument("--model_dir", metavar="DIR", help="Hugging Face's directory "
        "of a T5 with its tokenizer; without it the model is small and new")
    options, more = parser.parse_known_args(given)
    folder = Path(options.data)
    if not (folder / "train.src").exists():
        make_files(folder)
    train, held_out = load_pairs(folder)
    words = shared.Words((text for pair in train for text in pair), options.model_dir)
    trainer = MyTrainer(
        more, env_type="deepspeed", epochs=1, batch_size=2, eval_interval=50,
        log_interval=10, experiment_name="t5", master_port=17750, num_gpus=1,
        training_script=__file__, deepspeed_config=str(HERE / "t5_deepspeed.json"),
    )
    return trainer.train(
        load_model(words.size, options.model_dir), train, held_out, collate(words)
    )


if __name__ == "__main__":
    main()
