"""Trains a BERT to answer questions by a span of a text, as DeepSpeed's example on
SQuAD does.

    python examples/recipes/deepspeed_squad/squad.py --data DIR --model DIR

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
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "pytorch")]
import shared
from score import score

FILES = {"train": "train-v1.1.json", "dev": "dev-v1.1.json"}
# As in BERT's run_squad.py: the ends of the best spans that are tried, and the most
# tokens of an answer.
BEST, LONGEST = 20, 30


def parse_arguments(given):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--data", required=True, help=f"a folder with SQuAD's {FILES['train']} and "
        f"{FILES['dev']}; without them, such files are made there of the pages in docs/")
    add("--model", required=True, help="a directory of Hugging Face's, with a tokenizer")
    add("--config", default=str(HERE / "squad.json"))
    add("--set", action="append", default=[], metavar="KEY=VALUE",
        help="replaces or adds a key of the configuration")
    add("--epochs", type=int, default=2)
    add("--max_seq_length", type=int, default=384)
    add("--doc_stride", type=int, default=128)
    add("--questions", type=int, default=160, help="to make, if there are no files")
    add("--save", help="a directory for the trained model")
    add("--only_files", action="store_true",
        help="writes train.jsonl and dev.jsonl into the folder, a question a line as "
        "castor train reads them, and ends")
    return parser.parse_args(given)


def make_files(folder, questions):
    """A stand-in for SQuAD: what stands behind a word of a paragraph."""
    draw = random.Random(1)
    texts = [text.split()[:30] for _, text in shared.paragraphs()]
    passages = [" ".join(words) for words in texts if len(words) >= 12]
    folder.mkdir(parents=True, exist_ok=True)
    for file, count in ((FILES["train"], questions), (FILES["dev"], questions // 5)):
        paragraphs = []
        for index in range(count):
            context = draw.choice(passages)
            words = context.split()
            at = draw.randrange(len(words) - 3)
            begin = sum(len(word) + 1 for word in words[: at + 1])
            answer = " ".join(words[at + 1 : at + 3])
            paragraphs.append({"context": context, "qas": [{
                "id": f"{index}", "question": f"what stands behind {words[at]}",
                "answers": [{"text": answer, "answer_start": begin}],
            }]})
        data = {"version": "1.1", "data": [{"title": "docs", "paragraphs": paragraphs}]}
        (folder / file).write_text(json.dumps(data), encoding="utf-8")


def write_lines(questions, path):
    """A record of SQuAD's a line, as Hugging Face's datasets have it."""
    with path.open("w", encoding="utf-8") as file:
        for name, question, context, answers in questions:
            texts, starts = [text for text, _ in answers], [at for _, at in answers]
            record = {
                "id": name, "question": question, "context": context,
                "answers": {"text": texts, "answer_start": starts},
            }
            file.write(json.dumps(record) + "\n")


def load_questions(path):
    """[(id, question, context, [(text, begin)])] of a file in SQuAD's format."""
    return [
        (qa["id"], qa["question"], paragraph["context"],
         [(a["text"], a["answer_start"]) for a in qa.get("answers", [])])
        for article in json.loads(path.read_text(encoding="utf-8"))["data"]
        for paragraph in article["paragraphs"]
        for qa in paragraph["qas"]
    ]


def windows_of(questions, tokenizer, options):
    """[(question's number, inputs, (start, end), {token: (begin, end) in the text})]:
    texts that are too long make several windows, `doc_stride` tokens apart. A window
    without the first right answer has its first token, [CLS], for start and end."""
    windows = []
    for number, (_, question, context, answers) in enumerate(questions):
        encoded = tokenizer(
            question.strip(), context, truncation="only_second", padding="max_length",
            max_length=options.max_seq_length, return_overflowing_tokens=True,
            # transformers counts the tokens that two windows share.
            stride=max(0, room_of(question, tokenizer, options) - options.doc_stride),
            return_offsets_mapping=True,
        )
        for window, offsets in enumerate(encoded["offset_mapping"]):
            places = {
                token: offsets[token]
                for token, part in enumerate(encoded.sequence_ids(window))
                if part == 1
            }
            inputs = {
                name: encoded[name][window]
                for name in ("input_ids", "token_type_ids", "attention_mask")
            }
            windows.append((number, inputs, span_of(answers[:1], places), places))
    return windows


def room_of(question, tokenizer, options):
    """The tokens of a text that a window holds beside the question."""
    ids = tokenizer(question.strip(), add_special_tokens=False).input_ids
    room = options.max_seq_length - len(ids) - 3
    if room < 1:
        raise SystemExit(
            f"squad: a question of {len(ids)} tokens leaves no room for a text in "
            f"--max_seq_length {options.max_seq_length}: {question!r}"
        )
    return room


def span_of(answers, places):
    """The first and the last token of the answer; (0, 0) where it is not there."""
    for text, begin in answers:
        within = [
            token
            for token, (first, end) in places.items()
            if first < begin + len(text) and end > begin
        ]
        whole = (
            within and places[within[0]][0] <= begin
            and places[within[-1]][1] >= begin + len(text)
        )
        if whole:
            return within[0], within[-1]
    return 0, 0


def batch_of(windows):
    """The model's inputs, each [windows, max_seq_length], and its spans."""
    batch = {
        name: torch.tensor([inputs[name] for _, inputs, _, _ in windows])
        for name in windows[0][1]
    }
    starts, ends = zip(*(span for _, _, span, _ in windows))
    return batch, {
        "start_positions": torch.tensor(starts), "end_positions": torch.tensor(ends)
    }


def best_span(starts, ends, places):
    """(score, begin, end in the text) of the best span of a window's tokens."""
    best = (float("-inf"), 0, 0)
    of_text = torch.tensor(sorted(places))

    def most(logits):
        return of_text[logits[of_text].topk(min(BEST, len(of_text))).indices].tolist()

    for start in most(starts):
        for end in most(ends):
            if start <= end < start + LONGEST:
                value = (starts[start] + ends[end]).item()
                best = max(best, (value, places[start][0], places[end][1]))
    return best


def answer(engine, questions, windows, size):
    """{id: the span with the best score over a question's windows}."""
    best = {}
    engine.eval()
    for first in range(0, len(windows), size):
        chosen = windows[first : first + size]
        output = engine(**batch_of(chosen)[0])
        for row, (number, _, _, places) in enumerate(chosen):
            span = best_span(output.start_logits[row], output.end_logits[row], places)
            best[number] = max(best.get(number, span), span)
    engine.train()
    return {
        questions[number][0]: questions[number][2][begin:end]
        for number, (_, begin, end) in best.items()
    }


def shuffled(windows, epoch, step_rows):
    """The windows in the epoch's order, as many as whole steps take."""
    order = random.Random(epoch).sample(windows, len(windows))
    return order[: len(windows) - len(windows) % step_rows]


def load_model(directory):
    torch.manual_seed(1)
    return transformers.AutoModelForQuestionAnswering.from_pretrained(directory)


def main(given=None):
    options = parse_arguments(given)
    folder = Path(options.data)
    if not (folder / FILES["train"]).exists():
        make_files(folder, options.questions)
    train, dev = (load_questions(folder / FILES[name]) for name in ("train", "dev"))
    if options.only_files:
        write_lines(train, folder / "train.jsonl")
        write_lines(dev, folder / "dev.jsonl")
        return []
    tokenizer = transformers.AutoTokenizer.from_pretrained(options.model)
    windows, dev_windows = (windows_of(q, tokenizer, options) for q in (train, dev))
    config = shared.config_with(options.config, options.set)
    step_rows = config["train_batch_size"]
    steps = len(windows) // step_rows * options.epochs
    params = config["scheduler"]["params"]
    params.setdefault("total_num_steps", steps)
    params.setdefault("warmup_num_steps", steps // 10)
    model = load_model(options.model)
    losses = []
    with castor.initialize(model, config) as engine:

        def loss_of(chosen):
            inputs, spans = batch_of(chosen)
            return engine(**inputs, **spans).loss

        def evaluate(when):
            answers = answer(engine, dev, dev_windows, size)
            right = [(name, [text for text, _ in texts]) for name, _, _, texts in dev]
            figures = score(answers, right)
            if engine.rank == 0:
                print(
                    f"{when}: of {len(dev)} questions exact match "
                    f"{figures['exact_match']:.1f}, F1 {figures['f1']:.1f}"
                )

        size = step_rows // engine.gradient_accumulation_steps // engine.world_size
        evaluate("before" if options.epochs else options.model)
        for epoch in range(1, options.epochs + 1):
            rows = shuffled(windows, epoch, step_rows)
            micro_batches = [rows[i : i + size] for i in range(0, len(rows), size)]
            losses += shared.train(engine, micro_batches, loss_of)
            evaluate(f"epoch {epoch}, loss {losses[-1]:.4f}")
        if engine.rank == 0 and options.epochs:
            shared.report(engine)
        if options.save:
            engine.save_pretrained(options.save)
    return losses


if __name__ == "__main__":
    main()
