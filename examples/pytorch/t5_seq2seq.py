"""Trains a T5 to read numbers aloud, by castor.Trainer with its own loss.

    python examples/pytorch/t5_seq2seq.py [--model DIR] [--steps N]

t5_seq2seq.md is its page.
"""

import random
import tempfile

import castor
import torch
import transformers

import shared

ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen "
    "fourteen fifteen sixteen seventeen eighteen nineteen"
).split()
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()


def aloud(number):
    """The number below a million in words."""
    if number < 20:
        return ONES[number]
    if number < 100:
        rest = f" {ONES[number % 10]}" if number % 10 else ""
        return TENS[number // 10 - 2] + rest
    for size, name in ((1000, "thousand"), (100, "hundred")):
        if number >= size:
            rest = f" {aloud(number % size)}" if number % size else ""
            return f"{aloud(number // size)} {name}{rest}"


class Numbers(torch.utils.data.Dataset):
    def __init__(self, words, rows, seed):
        draw = random.Random(seed)
        self.numbers = [draw.randrange(10 ** draw.randint(1, 6)) for _ in range(rows)]
        self.words = words

    def __len__(self):
        return len(self.numbers)

    def __getitem__(self, index):
        number = self.numbers[index]
        source = self.words.rows([" ".join(str(number))], 16)
        labels = self.words.rows([aloud(number)], 16)["input_ids"][0]
        labels[labels == self.words.pad] = -100
        return {**{key: value[0] for key, value in source.items()}, "labels": labels}


def forward_step(model, inputs):
    """A loss of the program's own: the logits in fp32, without what is padding."""
    labels = inputs.pop("labels")
    decoder_input_ids = model._shift_right(labels)
    output = model(**inputs, decoder_input_ids=decoder_input_ids)
    logits = output.logits.float().flatten(0, 1)
    return torch.nn.functional.cross_entropy(logits, labels.flatten()), output


class Trainer(castor.Trainer):
    loss_is_scaled_for_ga = False  # it is a mean over the micro batch

    def compute_loss(self, model, inputs, return_outputs=False, **_):
        loss, output = forward_step(model, inputs)
        return (loss, output) if return_outputs else loss


def load_model(directory, vocabulary):
    if directory:
        return transformers.AutoModelForSeq2SeqLM.from_pretrained(directory)
    torch.manual_seed(1)
    return transformers.T5ForConditionalGeneration(
        transformers.T5Config(
            vocab_size=vocabulary, d_model=128, d_kv=32, d_ff=512, num_layers=3,
            num_heads=4, decoder_start_token_id=0,
        )
    )


def main():
    options = shared.arguments(__doc__, "t5_seq2seq", steps=60, batch=8).parse_args()
    texts = [*map(aloud, range(100)), "thousand hundred", "0 1 2 3 4 5 6 7 8 9"]
    words = shared.Words(texts, options.model)
    with castor.ZeroInit(options.config):
        model = load_model(options.model, words.size)
    with tempfile.TemporaryDirectory() as scratch:
        trainer = Trainer(
            model,
            transformers.TrainingArguments(
                output_dir=options.save or scratch, use_cpu=True, report_to=[],
                per_device_train_batch_size=options.batch, max_steps=options.steps,
                learning_rate=2e-3, warmup_steps=5, logging_steps=10,
                save_strategy="no",
            ),
            train_dataset=Numbers(words, 4096, seed=1),
            eval_dataset=Numbers(words, 64, seed=2),
            castor=options.config,
        )
        trainer.train()
        print(f"loss on other numbers {trainer.evaluate()['eval_loss']:.4f}")
        shared.report(trainer.engine)
        if options.save:
            trainer.save_model()
        trainer.engine.close()


if __name__ == "__main__":
    main()
