"""The recipes of examples/recipes, small: each loss beside plain PyTorch's with the
original's semantics, and the same bits at two budgets and on two ranks."""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import re
import tempfile
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import castor
import tokenizers
import torch
import transformers

from recipe_parts import (
    RECIPES, STEPS, TEXT, TINY, Moments, boolq_step, clipped_adamw, lamb_rate, make_bert,
    paragraphs, plain_losses, settings, squad_step,
)
from two_ranks import do_as_a_rank, is_a_rank, on_two_ranks

import boolq
import finetune
import pretrain
import score
import shared
import squad
import train as flagai
import train_vit


def means(losses: list[float]) -> list[float]:
    """Of each step's two micro batches."""
    return [a / 2 + b / 2 for a, b in zip(losses[::2], losses[1::2])]


BERT = settings(
    train_batch_size=4, train_micro_batch_size_per_gpu=2, fp16__enabled="false"
)


def pretrained(config: str, folder: str, *more: str) -> list[float]:
    path = str(RECIPES / "deepspeed_bert" / config)
    with mock.patch.dict(pretrain.SHAPES, small=TINY):
        return pretrain.main(
            ["--deepspeed_config", path, "--output_dir", folder, "--text", TEXT, *BERT,
             *more]
        )


def by_adam(folder: str, *more: str) -> list[float]:
    return pretrained(
        "deepspeed_bsz4096_adam_config.json", folder, "--max_steps", str(STEPS),
        "--max_seq_length", "32", *more,
    )


def answered(folder: str, *more: str) -> list[float]:
    """The loss of each micro batch of four epochs of five steps."""
    with (
        mock.patch.object(boolq, "SMALL", TINY),
        mock.patch.object(shared, "paragraphs", paragraphs),
    ):
        return boolq.main(
            ["--data", folder, "--rows", "40", "--epochs", "4", "--max-length", "32",
             *settings(
                 train_batch_size=8, train_micro_batch_size_per_gpu=4,
                 scheduler__params__warmup_iter=10, scheduler__params__start_lr=1e-2,
                 fp16__enabled="false",
             ), *more]
        )


def found(folder: str, *more: str) -> list[float]:
    """The loss of each micro batch of two epochs of spans."""
    if not (Path(folder) / "bert").exists():
        make_bert(Path(folder) / "bert", transformers.BertForQuestionAnswering)
    with mock.patch.object(shared, "paragraphs", paragraphs):
        return squad.main(
            ["--data", folder, "--model", folder + "/bert", "--questions", "40",
             "--max_seq_length", "48", "--doc_stride", "16",
             *settings(
                 train_batch_size=8, train_micro_batch_size_per_gpu=4,
                 fp16__enabled="false", scheduler__params__total_num_steps=40,
                 scheduler__params__warmup_num_steps=4,
             ), *more]
        )


def written(config: dict[str, Any], folder: str) -> str:
    """The path of a file of this process with the configuration."""
    path = Path(folder) / f"config_{os.getpid()}.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    return str(path)


def small_opt(_: str | None) -> torch.nn.Module:
    torch.manual_seed(1)
    return transformers.OPTForCausalLM(
        transformers.OPTConfig(
            vocab_size=256, hidden_size=32, ffn_dim=64, num_hidden_layers=2,
            num_attention_heads=2, word_embed_proj_dim=32, max_position_embeddings=64,
            pad_token_id=None,
        )
    )


def finetuned(folder: str, micro_batches: int, policy: str, budget: str) -> list[float]:
    config = shared.config_with(
        RECIPES / "colossalai_opt" / "opt.json",
        [f"gradient_accumulation_steps={micro_batches}",
         f"zero.model_config.tensor_placement_policy={policy}",
         f"memory.device_memory={budget}"],
    )
    path = written(config, folder)
    with mock.patch.object(finetune, "load_model", small_opt):
        return finetune.main(
            ["--text", TEXT, "--config", path, "--steps", str(STEPS),
             "--batch", "2", "--length", "32"]
        )


T5 = dict(d_model=32, d_kv=16, d_ff=64, num_layers=2, num_heads=2)
# Those of t5_deepspeed.json.
T5_ADAM: dict[str, Any] = dict(lr=4e-4, weight_decay=0.01, betas=(0.9, 0.98), eps=1e-6)


def make_t5(folder: str) -> None:
    """A directory of Hugging Face's: a small T5 without dropout, and a tokenizer of
    the kind of T5's, which knows characters."""
    characters = "".join(map(str, range(10))) + "abcdefghijklmnopqrstuvwxyz"
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("\u2581", -2.0)]
    pieces += [(character, -3.0) for character in characters]
    tokenizer = tokenizers.Tokenizer(tokenizers.models.Unigram(pieces, unk_id=2))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 1)]
    )
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>",
        unk_token="<unk>", model_input_names=["input_ids", "attention_mask"],
    ).save_pretrained(folder)
    torch.manual_seed(1)
    transformers.T5ForConditionalGeneration(
        transformers.T5Config(
            vocab_size=len(pieces), decoder_start_token_id=0, dropout_rate=0.0, **T5
        )
    ).save_pretrained(folder)


def read_aloud(
    folder: str, micro_batches: int, *more: str, model_dir: str = ""
) -> list[float]:
    """The loss of each micro batch of twenty steps."""
    config = shared.config_with(
        RECIPES / "flagai_t5" / "t5_deepspeed.json",
        ["fp16.enabled=false", f"gradient_accumulation_steps={micro_batches}", *more],
    )
    path = written(config, folder)
    if not (Path(folder) / "train.src").exists():
        flagai.make_files(Path(folder), rows=100)
    with mock.patch.dict(flagai.SHAPE, T5):
        return flagai.main(
            [folder, f"--deepspeed_config={path}", "--eval_interval=10",
             *([f"--model_dir={model_dir}"] if model_dir else [])]
        )


def seen(folder: str, micro_batches: int, *more: str) -> list[float]:
    """The loss of each micro batch of twenty steps."""
    with mock.patch.dict(train_vit.SHAPE, TINY):
        return train_vit.main(
            [folder, "--batch_size=2", f"--gradient_accumulation_steps={micro_batches}",
             "--eval_interval=10", "--lr=1e-3", *more], rows=(80, 9),
        )


def as_a_rank(train: Callable[[str], list[float]], name: str) -> Callable[[], Any]:
    # The ranks share a folder, as ranks of one machine do.
    return lambda: train(str(Path(os.environ["CASTOR_TEST_FOLDER"]) / name))


class Recipes(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.said = io.StringIO()
        quiet = contextlib.ExitStack()
        quiet.enter_context(contextlib.redirect_stdout(self.said))
        self.addCleanup(quiet.close)
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        self.addCleanup(torch.set_num_threads, threads)

    def assert_close(self, ours: list[float], plain: list[float]) -> None:
        self.assertEqual(len(ours), len(plain))
        self.assertGreaterEqual(len(ours), STEPS)
        self.assertLess(max(abs(a - b) for a, b in zip(ours, plain)), 1e-5)

    def less_memory(self) -> str:
        """A budget below what the run before this one took, and enough."""
        peak, smallest = (
            float(re.findall(pattern, self.said.getvalue())[-1])
            for pattern in (r"device peak ([0-9.]+)", r"least that does ([0-9.]+)")
        )
        budget = smallest + 0.1  # which is rounded
        self.assertLess(budget, peak)
        return f"memory.device_memory={int(budget * (1 << 20))}"

    def pretrained_plainly(
        self, lengths: list[int], rate_of: Callable[[int], float],
        coefficients: tuple[float, ...] = (),
    ) -> list[float]:
        pairs = pretrain.Pairs(TEXT)
        with mock.patch.dict(pretrain.SHAPES, small=TINY):
            model = pretrain.load_model("small", pairs.words.size)
        moments = Moments(pretrain.groups_of(model), coefficients)
        batches = (
            pairs.batch(2 * step + i, 2, length)
            for step, length in enumerate(lengths)
            for i in range(2)
        )
        return means(
            plain_losses(
                model, 2, batches, lambda batch: model(**batch).loss,
                lambda step: moments.step(rate_of(step)),
            )
        )

    def test_bert_by_deepspeeds_adam(self) -> None:
        ours = by_adam(self.folder)
        plain = self.pretrained_plainly([32] * STEPS, lambda _: 2e-4)
        self.assert_close(ours, plain)
        again = by_adam(self.folder + "/again", "--set", self.less_memory())
        self.assertEqual(again, ours)

    def test_bert_by_lamb_in_two_phases(self) -> None:
        warm_up = settings(scheduler__params__total_num_steps=200)

        def train(folder: str, *more: str) -> list[float]:
            first = pretrained(
                "lamb_128.json", folder, *warm_up, "--max_steps", "10",
                "--max_seq_length", "16", "--job_name", "first", *more,
            )
            return first + pretrained(
                "lamb_512.json", folder, *warm_up, "--max_steps", "20",
                "--max_seq_length", "32", "--load_checkpoint_id", "first",
                *settings(scheduler__params__restart_step=10), *more,
            )

        ours = train(self.folder)
        loaded = "loaded first: {'steps': 10, 'max_seq_length': 16}"
        self.assertIn(loaded, self.said.getvalue())
        plain = self.pretrained_plainly([16] * 10 + [32] * 10, lamb_rate, (0.01, 0.3))
        self.assert_close(ours, plain)
        again = train(self.folder + "/again", "--set", self.less_memory())
        self.assertEqual(again, ours)
        with self.assertRaisesRegex(SystemExit, "restart_step is 7500, and first has 10"):
            pretrained(
                "lamb_512.json", self.folder, *warm_up, "--load_checkpoint_id", "first"
            )

    def test_pairs_of_a_berts_tokenizer(self) -> None:
        make_bert(Path(self.folder), transformers.BertForPreTraining)
        tokenizer = transformers.AutoTokenizer.from_pretrained(self.folder)
        pairs = pretrain.Pairs(TEXT, self.folder)
        self.assertEqual(pairs.words.size, len(tokenizer))
        batch = pairs.batch(0, 2, 32)
        first, second, is_other = pairs.draw(random.Random(0), 32)
        expected = tokenizer(
            first, second, truncation=True, max_length=32, padding="max_length"
        )
        labels, masked = batch["labels"][0], batch["input_ids"][0]
        self.assertTrue((labels != -100).any())
        self.assertEqual(
            torch.where(labels == -100, masked, labels).tolist(), expected.input_ids
        )
        self.assertEqual(batch["token_type_ids"][0].tolist(), expected.token_type_ids)
        self.assertEqual(batch["next_sentence_label"][0].item(), is_other)

    def test_boolq_by_bmtrain(self) -> None:
        ours = answered(self.folder)
        said = self.said.getvalue()
        self.assertEqual(len(re.findall(r"^epoch \d, loss .* right$", said, re.M)), 4)
        rows = boolq.load_rows(Path(self.folder) / "train.jsonl")
        words = shared.Words(text for row in rows for text in row[:2])
        with mock.patch.object(boolq, "SMALL", TINY):
            model = boolq.load_model(None, words.size)
        cross_entropy = torch.nn.CrossEntropyLoss(ignore_index=-100)
        batches = (
            batch
            for epoch in range(1, 5)
            for batch in boolq.batches(boolq.shuffled(rows, epoch, 8), words, 32, 4)
        )
        plain = plain_losses(
            model, 2, batches,
            lambda batch: cross_entropy(model(**batch[0]), batch[1]),
            boolq_step(model),
        )
        self.assert_close(ours, plain)
        on_device = ["--set", "memory.placement_policy=auto"]
        self.assertEqual(answered(self.folder, *on_device), ours)
        on_device += ["--set", self.less_memory(), "--save", self.folder + "/saved"]
        self.assertEqual(answered(self.folder, *on_device), ours)
        self.assertTrue(list(Path(self.folder, "saved").glob("step-*.castor")))

    def test_spans_of_squad(self) -> None:
        ours = found(self.folder)
        said = self.said.getvalue()
        self.assertEqual(len(re.findall(r"exact match [0-9.]+, F1 [0-9.]+", said)), 3)
        model = squad.load_model(self.folder + "/bert")
        tokenizer = transformers.AutoTokenizer.from_pretrained(self.folder + "/bert")
        questions = squad.load_questions(Path(self.folder, squad.FILES["train"]))
        options = squad.parse_arguments(
            ["--data", "", "--model", "", "--max_seq_length", "48", "--doc_stride", "16"]
        )
        windows = squad.windows_of(questions, tokenizer, options)
        self.assertGreater(len(windows), len(questions))
        self.check_windows(questions, windows)
        batches = (
            squad.batch_of(rows[i : i + 4])
            for epoch in (1, 2)
            for rows in [squad.shuffled(windows, epoch, 8)]
            for i in range(0, len(rows), 4)
        )
        plain = plain_losses(
            model, 2, batches, lambda b: model(**b[0], **b[1]).loss,
            squad_step(model, 3e-5),
        )
        self.assert_close(ours, plain)
        again = found(
            self.folder, "--set", self.less_memory(), "--save", self.folder + "/saved"
        )
        self.assertEqual(again, ours)
        self.assertTrue(Path(self.folder, "saved", "model.safetensors").exists())

    def check_windows(self, questions: list[Any], windows: list[Any]) -> None:
        """Each text's tokens are all in its windows, `doc_stride` of them further on
        in each, and each answer's span is the answer."""
        spans = dict.fromkeys(range(len(questions)), 0)
        covered: dict[int, set[int]] = {}
        for number, _, (start, end), places in windows:
            first = min(begin for begin, _ in places.values())
            before = covered.setdefault(number, set())
            begins = {begin for begin, _ in places.values()}
            self.assertTrue(not before or len(begins - before) <= 16, number)
            self.assertTrue(not before or first in before, number)
            before |= begins
            if (start, end) == (0, 0):
                continue
            spans[number] += 1
            text, begin = questions[number][3][0]
            self.assertLessEqual(places[start][0], begin)
            self.assertGreaterEqual(places[end][1], begin + len(text))
        self.assertTrue(all(spans.values()), spans)

    def test_scores_of_spans_are_another_implementations(self) -> None:
        # Figures are those of torchmetrics 1.9.0, functional.text.squad.
        for answer, right, exact, f1 in (
            ("The Apollo program", ["Apollo program"], 100, 100),
            ("a cat, the hat!", ["Cat hat"], 100, 100),
            ("in 1969", ["1969", "July 1969", "in the year 1969"], 0, 80),
            ("Neil Armstrong and Buzz Aldrin", ["Neil Armstrong"], 0, 57.14286),
            ("no no no", ["no no yes"], 0, 66.66667),
            ("Paris", ["London", "Rome"], 0, 0),
            ("well-known actor", ["well known actor", "wellknown"], 0, 66.66667),
            ("Beyoncé Knowles", ["Beyoncé", "beyonce knowles"], 0, 66.66667),
            ("$5.50", ["550", "5.50 dollars"], 100, 100),
            ("Theatre an der Wien", ["theatre der wien"], 100, 100),
            ("the", ["a"], 100, 100),
            ("?!", ["why"], 0, 0),
            ("  two \t words\n", ["two words"], 100, 100),
            ("", ["something"], 0, 0),
        ):
            figures = score.score({"q": answer}, [("q", right)])
            self.assertAlmostEqual(figures["exact_match"], exact, 4, answer)
            self.assertAlmostEqual(figures["f1"], f1, 4, answer)
        missing = score.score({"q": "yes"}, [("q", ["yes"]), ("other", ["no"])])
        self.assertEqual(missing, {"exact_match": 50.0, "f1": 50.0})
        self.assertEqual(score.score({"q": ""}, [("q", [])])["f1"], 100.0)

    def test_a_span_ends_behind_its_start_and_within_the_text(self) -> None:
        places = {token: (10 * token, 10 * token + 5) for token in range(3, 40)}
        starts, ends = torch.zeros(48), torch.zeros(48)
        starts[1] = ends[45] = 9  # of the question, and of no text
        starts[39], ends[3] = 5, 5  # the end before the start
        starts[8], ends[38] = 4, 4  # longer than 30 tokens
        ends[13] = 3
        best = squad.best_span(starts, ends, places)
        self.assertEqual(best, (7.0, 80, 135))

    def test_opt_by_colossal_ai(self) -> None:
        ours = finetuned(self.folder, 2, "auto", "unlimited")
        model = small_opt(None)
        optimizer = torch.optim.Adam(model.parameters())
        tokens = finetune.load_tokens(TEXT, None)

        def step(_: int) -> None:
            optimizer.step()
            optimizer.zero_grad()

        batches = (finetune.batch_of(tokens, 2, 32, index) for index in range(2 * STEPS))
        plain = plain_losses(model, 2, batches, lambda b: model(**b).loss, step)
        self.assert_close(ours, means(plain))
        key, _, budget = self.less_memory().partition("=")
        self.assertEqual(finetuned(self.folder, 2, "AUTO", budget), ours)
        self.assertEqual(finetuned(self.folder, 2, "CPU", "unlimited"), ours)

    def test_t5_by_flagai(self) -> None:
        ours = read_aloud(self.folder, 2)
        self.assertEqual(self.said.getvalue().count("t5: validation loss"), 2)
        rows, held_out = flagai.load_pairs(Path(self.folder))
        self.assertEqual((len(rows), len(held_out)), (80, 20))
        words = shared.Words(text for row in rows for text in row)
        with mock.patch.dict(flagai.SHAPE, T5):
            model = flagai.load_model(words.size)
        step = clipped_adamw(model, **T5_ADAM)
        order = torch.randperm(80, generator=torch.Generator().manual_seed(0)).tolist()
        collate = flagai.collate(words)
        batches = (collate([rows[i], rows[j]]) for i, j in zip(order[::2], order[1::2]))
        plain = plain_losses(model, 2, batches, lambda b: model(**b).loss, step)
        self.assert_close(ours, plain)
        self.assertEqual(read_aloud(self.folder, 2, self.less_memory()), ours)

    def test_t5_of_a_directory(self) -> None:
        directory = self.folder + "/t5"
        make_t5(directory)
        ours = read_aloud(
            self.folder, 1, "train_batch_size=4", "train_micro_batch_size_per_gpu=4",
            model_dir=directory,
        )
        tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
        model = transformers.T5ForConditionalGeneration.from_pretrained(directory)
        step = clipped_adamw(model, **T5_ADAM)
        def loss_of(chosen: list[tuple[str, str]]) -> torch.Tensor:
            sources, targets = (
                tokenizer(list(texts), padding=True, return_tensors="pt")
                for texts in zip(*chosen)
            )
            labels = targets.input_ids.masked_fill(targets.attention_mask == 0, -100)
            return model(**sources, labels=labels).loss

        rows, _ = flagai.load_pairs(Path(self.folder))
        order = torch.randperm(80, generator=torch.Generator().manual_seed(0)).tolist()
        batches = ([rows[i] for i in order[at : at + 4]] for at in range(0, 80, 4))
        self.assert_close(ours, plain_losses(model, 1, batches, loss_of, step))

    def test_vit_by_flagai(self) -> None:
        ours = seen(self.folder, 2)
        said = self.said.getvalue()
        self.assertIn("has no CIFAR-100: made 80 + 9 images", said)
        accuracies = re.findall(r"^vit: validation loss .*  accuracy ([0-9.]+)$", said, re.M)
        self.assertEqual(len(accuracies), 2)
        for accuracy in accuracies:
            self.assertAlmostEqual(float(accuracy) * 9 % 1, 0, delta=1e-3)
        images = train_vit.Images(Path(self.folder, "train.bin"))
        self.assertEqual(len(images), 80)
        with mock.patch.dict(train_vit.SHAPE, TINY):
            model = train_vit.load_model()
        step = clipped_adamw(model, lr=1e-3, weight_decay=1e-5)
        order = torch.randperm(80, generator=torch.Generator().manual_seed(0)).tolist()
        batches = (
            train_vit.collate([images[i], images[j]])
            for i, j in zip(order[::2], order[1::2])
        )
        plain = plain_losses(model, 2, batches, lambda b: model(**b).loss, step)
        self.assert_close(ours, plain)
        config: dict[str, Any] = {
            "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2,
            "gradient_clipping": 1.0,
            "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "weight_decay": 1e-5}},
        }
        key, _, budget = self.less_memory().partition("=")
        config["memory"] = {key.rpartition(".")[2]: int(budget)}
        path = written(config, self.folder)
        again = ["--env_type=deepspeed", f"--deepspeed_config={path}"]
        self.assertEqual(seen(self.folder, 2, *again), ours)
        self.assertEqual(seen(self.folder, 2, "--checkpoint_activations=true"), ours)
        with open(Path(self.folder, "test.bin"), "ab") as file:
            file.write(b"1")
        with self.assertRaisesRegex(SystemExit, "27667 bytes, which are no rows"):
            seen(self.folder, 2)
        os.remove(Path(self.folder, "test.bin"))
        with self.assertRaisesRegex(SystemExit, "lacks test.bin"):
            seen(self.folder, 2)

    def test_flagais_arguments(self) -> None:
        trainer = flagai.MyTrainer(
            ["--lr=0.5", "--fp16=true"], lr=1.0, batch_size=3, pytorch_device="cpu"
        )
        self.assertEqual(trainer.config()["optimizer"]["params"]["lr"], 0.5)
        self.assertEqual(trainer.config()["train_micro_batch_size_per_gpu"], 3)
        self.assertIs(trainer.config()["fp16"]["enabled"], True)
        for wrong in ("--env_type=deepspeed+mpu", "--num_nodes=2", "--fp16=maybe"):
            with contextlib.redirect_stderr(io.StringIO()) as said:
                with self.assertRaises(SystemExit) as caught:
                    flagai.MyTrainer([wrong])
            self.assertEqual(caught.exception.code, 2)
            self.assertIn(wrong[2:].partition("=")[0], said.getvalue())

    def test_two_ranks_have_the_bits_of_one(self) -> None:
        for name in ("questions", "spans", "numbers", "images"):
            (Path(self.folder) / name).mkdir()
        expected = {
            "bert": by_adam(self.folder + "/one"),
            "boolq": answered(self.folder + "/questions"),
            "squad": found(self.folder + "/spans"),
            "opt": finetuned(self.folder, 2, "auto", "unlimited"),
            "t5": read_aloud(self.folder + "/numbers", 2),
            "vit": seen(self.folder + "/images", 2),
        }
        ranks = on_two_ranks(__file__, *expected, folder=self.folder)
        for name in ("bert", "opt"):
            # Means of numbers in fp32.
            halves = torch.tensor([rank[name] for rank in ranks])
            one = torch.tensor(expected[name])
            self.assertTrue(torch.equal((halves[0] + halves[1]) / 2, one), name)
        for name in ("boolq", "squad", "t5", "vit"):
            for rank in range(2):
                self.assertEqual(ranks[rank][name], expected[name][rank::2], name)


if __name__ == "__main__":
    if is_a_rank():
        works = {
            "bert": as_a_rank(by_adam, "bert"),
            "boolq": as_a_rank(answered, "questions"),
            "squad": as_a_rank(found, "spans"),
            "opt": as_a_rank(
                lambda folder: finetuned(folder, 1, "auto", "unlimited"), ""
            ),
            "t5": as_a_rank(lambda folder: read_aloud(folder, 1), "numbers"),
            "vit": as_a_rank(lambda folder: seen(folder, 1), "images"),
        }
        with contextlib.redirect_stdout(io.StringIO()):
            do_as_a_rank(works)
    else:
        unittest.main()
