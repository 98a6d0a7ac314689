"""Two ranks, as torchrun starts them, against one with the same global batch."""

from __future__ import annotations

import json
import os
import random
import tempfile
import unittest
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

import castor
import torch
from torch import nn

from models import MAKERS, vary
from promises_test import bytes_of, placement
from small import Net, X, bits, engine_of, one_step
from two_ranks import do_as_a_rank, is_a_rank, on_two_ranks

STEPS = 3


def config(accumulation: int, budget: int | None) -> dict[str, Any]:
    return {
        "gradient_accumulation_steps": accumulation,
        "gradient_clipping": 0.5,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "weight_decay": 0.1}},
        "memory": {
            "device_memory": "unlimited" if budget is None else budget,
            "host_memory": "256MiB",
        },
        "device": {"threads": 1},
    }


def gpt2(seed: int) -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(seed)
    return GPT2LMHeadModel(
        GPT2Config(
            n_layer=2, n_head=2, n_embd=32, n_positions=16, vocab_size=64, use_cache=False
        )
    )


def batch(step: int, micro_batch: int) -> dict[str, torch.Tensor]:
    draw = torch.Generator().manual_seed(100 * step + micro_batch)
    # Lengths differ from rank to rank.
    tokens = torch.randint(64, (2, 8 + 4 * (micro_batch % 2)), generator=draw)
    return {"input_ids": tokens, "labels": tokens}


def go_on(engine: castor.Engine) -> list[str]:
    """What a process has after the steps that are left of its share, dropout
    included."""
    engine.train()
    for step in range(engine.global_steps, STEPS):
        engine.train_batch(
            batch(step, m * engine.world_size + engine.rank)
            for m in range(engine.gradient_accumulation_steps)
        )
    return [b.hex() for b in bits(engine)]


def trained(accumulation: int, budget: int | None, seed: int) -> dict[str, Any]:
    with castor.initialize(gpt2(seed), config(accumulation, budget)) as engine:
        return {"bits": go_on(engine), "summary": engine.summary()}


def saved_alone(folder: Path) -> None:
    """After one step of one rank."""
    with castor.initialize(gpt2(5), config(2, None)) as engine:
        engine.train()
        engine.train_batch(batch(0, m) for m in range(2))
        engine.save_checkpoint(folder / "of one", ["one"])


def checkpoints() -> dict[str, Any]:
    folder = Path(os.environ["CASTOR_TEST_FOLDER"])
    told: dict[str, Any] = {}
    with castor.initialize(gpt2(6), config(1, 300_000)) as engine:
        told["state of one"] = engine.load_checkpoint(folder / "of one")[1]
        # Ranks' generators differ.
        torch.manual_seed(engine.rank)
        path = engine.save_checkpoint(folder / "of two", [f"rank {engine.rank}"])
        drawn = torch.rand(3).tolist()
        told["bits"] = go_on(engine)
        told["state of two"] = engine.load_checkpoint(path)[1]
        told["draws again"] = torch.rand(3).tolist() == drawn
        before = bits(engine)
        for name, call in {
            "unlike": lambda: engine.save_checkpoint(folder / str(engine.rank)),
            "no JSON": lambda: engine.save_checkpoint(
                folder / "x", object() if engine.rank == 1 else None
            ),
            "missing": lambda: engine.load_checkpoint(folder / "none"),
            "keep": lambda: engine.save_checkpoint(folder / "x", keep=engine.rank),
        }.items():
            try:
                call()
                told[name] = ""
            except (castor.CheckpointError, ValueError) as error:
                told[name] = str(error)
        told["unchanged"] = bits(engine) == before
        told["goes on"] = go_on(engine)
    return told


class FailsOnce(Net):
    """On rank 1, in the second step."""

    calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.fail = os.environ["RANK"] == "1" and self.calls == 2
        return super().forward(x)


class ReadsOther(Net):
    """On rank 1, in the second step."""

    def __init__(self) -> None:
        super().__init__()
        self.other = nn.Linear(8, 1)
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        other = os.environ["RANK"] == "1" and self.calls == 2
        return (self.other if other else self.b)(torch.tanh(self.a(x))).mean()


def failed_on_one_rank(model: nn.Module) -> dict[str, Any]:
    with engine_of(model) as engine:
        one_step(engine, X)
        before = bits(engine)
        try:
            one_step(engine, X)
            error = ""
        except (RuntimeError, KeyError) as caught:
            error = repr(caught)
        unchanged = bits(engine) == before
        one_step(engine, X)
        return {"error": error, "unchanged": unchanged, "steps": engine.global_steps}


def not_finite_on_one_rank() -> dict[str, Any]:
    """Rank 1 alone has inputs that give no number, with clipping and without."""
    folder = Path(os.environ["CASTOR_TEST_FOLDER"])
    told: dict[str, Any] = {}
    for name, clipping in (("undone", 0.5), ("spoiled", 0.0)):
        torch.manual_seed(0)
        settings = config(1, None) | {"gradient_clipping": clipping}
        with castor.initialize(Net(), settings) as engine:
            bad = X * float("nan") if engine.rank == 1 else X
            one_step(engine, X)
            path = engine.save_checkpoint(folder / name)
            before = bits(engine)
            try:
                for _ in range(4):
                    one_step(engine, bad)
                error = ""
            except castor.NonFiniteError as caught:
                error = str(caught)
            if clipping == 0:
                engine.load_checkpoint(path)
            unchanged = bits(engine) == before
            one_step(engine, X)
            told[name] = {
                "error": error,
                "unchanged": unchanged,
                "skipped": engine.summary()["skipped_steps"],
                "bits": [b.hex() for b in bits(engine)],
            }
    return told


def refused_on_one_rank() -> dict[str, Any]:
    """Rank 1 alone has a batch that does not fit."""
    torch.manual_seed(0)
    with engine_of(Net(), budget=40_000) as engine:
        engine.train()
        one_step(engine, X)
        try:
            one_step(engine, X.repeat(4000 if engine.rank == 1 else 1, 1))
            refused = {}
        except castor.Refused as caught:
            refused = {"peak": caught.peak_bytes, "text": str(caught)}
        one_step(engine, X)
        return {"refused": refused, "steps": engine.global_steps}


def buffer_written() -> dict[str, Any]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), Net())
    with engine_of(model) as engine:
        engine.train()
        try:
            one_step(engine, X)
            return {"error": ""}
        except RuntimeError as caught:
            return {"error": str(caught)}


def one_leaves() -> dict[str, Any]:
    torch.manual_seed(0)
    with engine_of(Net()) as engine:
        engine.train()
        one_step(engine, X)
        if engine.rank == 0:
            return {"error": ""}
        try:
            one_step(engine, X)
            return {"error": ""}
        except RuntimeError as caught:
            return {"error": str(caught)}


def traced() -> dict[str, Any]:
    path = Path(os.environ["CASTOR_TEST_FOLDER"]) / "run.trace"
    with castor.initialize(gpt2(5), config(1, 300_000)) as engine:
        engine.trace(path)
        go_on(engine)
        return {"steps": engine.global_steps}


def planned() -> dict[str, Any]:
    return castor.plan(gpt2(5), config(2, None), batch(0, 1)).summary()


def family(name: str, accumulation: int) -> dict[str, Any]:
    """What two steps of two micro batches make of a model of this family."""
    rng = random.Random(f"ranks {name}")
    case = MAKERS[name](rng, 4)
    model = vary(random.Random(name), case.make()).train()
    settings = config(accumulation, None)
    settings["memory"].update(placement(rng) if accumulation == 1 else {})
    with castor.initialize(model, settings) as engine:
        try:
            for step in range(2):
                engine.train_batch(
                    case.batches[2 * step + m * engine.world_size + engine.rank]
                    for m in range(accumulation)
                )
        except RuntimeError as error:
            return {"error": str(error)}
        return {"bits": [b.hex() for b in bits(engine)]}


def trainer(accumulation: int, folder: Path) -> Any:
    import transformers
    from trainer_test import Rows, gpt2

    model = gpt2()
    model.transformer.drop.p = 0.3
    made = castor.Trainer(
        model,
        transformers.TrainingArguments(
            output_dir=str(folder), use_cpu=True, report_to=[], disable_tqdm=True,
            save_strategy="steps", save_steps=2, logging_strategy="steps",
            logging_steps=1, per_device_train_batch_size=2,
            # Trainer divides an evaluation's loss by the items of all ranks' batches.
            per_device_eval_batch_size=2 * accumulation,
            gradient_accumulation_steps=accumulation,
            num_train_epochs=2, learning_rate=1e-2, weight_decay=0.1,
        ),
        train_dataset=Rows(12), eval_dataset=Rows(8, seed=1),
        castor={"memory": {"device_memory": "2MiB"}, "device": {"threads": 1}},
    )
    made.remove_callback(transformers.PrinterCallback)
    return made


def trainer_trained(accumulation: int, resume: Path | None = None) -> dict[str, Any]:
    """What Trainer has after two epochs of three steps."""
    folder = Path(os.environ["CASTOR_TEST_FOLDER"]) / "trainer"
    with_trainer = trainer(accumulation, folder)
    with_trainer.train(resume_from_checkpoint=resume and str(resume))
    told = {
        "bits": [b.hex() for b in bits(with_trainer.engine)],
        "steps": with_trainer.engine.global_steps,
        "losses": [h["loss"] for h in with_trainer.state.log_history if "loss" in h],
        "eval_loss": with_trainer.evaluate()["eval_loss"],
        "predictions": with_trainer.predict(with_trainer.eval_dataset)
        .predictions.tolist(),
    }
    with_trainer.save_model(str(folder / "model"))
    with_trainer.engine.close()
    return told


def generated() -> list[list[int]]:
    """Of rows whose sequences end at different places."""
    import transformers
    from trainer_test import OurSeq2Seq, Rows, t5

    arguments = transformers.Seq2SeqTrainingArguments(
        output_dir=os.environ["CASTOR_TEST_FOLDER"], use_cpu=True, report_to=[],
        disable_tqdm=True, predict_with_generate=True, generation_max_length=12,
        per_device_eval_batch_size=1,
    )
    model = t5()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)
    model.generation_config.eos_token_id = [15, 32]
    seq2seq = OurSeq2Seq(model, arguments, castor={"device": {"threads": 1}})
    predictions: list[list[int]] = seq2seq.predict(Rows(4)).predictions.tolist()
    seq2seq.engine.close()
    return predictions


def refused_in_generation() -> dict[str, Any]:
    """Rank 1 alone, after the last parameter of a token was read; then not."""
    model = gpt2(5).eval()
    prompt = batch(0, 0)["input_ids"][:, :4]
    told = {"refused": "", "tokens": []}
    with castor.initialize(model, config(1, 300_000)) as engine:

        def takes(scores_bytes: int) -> Any:
            def process(tokens: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
                if engine.rank == 1 and tokens.shape[1] == 6:
                    torch.zeros(scores_bytes, dtype=torch.uint8)
                return scores

            return process

        def generate(more_bytes: int) -> torch.Tensor:
            tokens: torch.Tensor = model.generate(
                input_ids=prompt, max_new_tokens=5, do_sample=False, pad_token_id=0,
                logits_processor=[takes(more_bytes)], synced_gpus=True,
            )
            return tokens

        engine.eval()
        try:
            engine.compute(generate, 1_000_000)
        except castor.Refused as caught:
            told["refused"] = str(caught)
        told["tokens"] = engine.compute(generate, 1).tolist()
    return told


def trainer_on_ranks() -> dict[str, Any]:
    told = trainer_trained(1)
    told["generated"] = generated()
    folder = Path(os.environ["CASTOR_TEST_FOLDER"]) / "trainer"
    told["resumed"] = trainer_trained(1, folder / "checkpoint-2")["bits"]
    return told


WORK = {
    "plan": planned,
    "train": lambda: trained(1, None, seed=5 + int(os.environ["RANK"])),
    "train_small": lambda: trained(2, 300_000, seed=5),
    "fail": lambda: failed_on_one_rank(FailsOnce()),
    "read": lambda: failed_on_one_rank(ReadsOther()),
    "not_finite": not_finite_on_one_rank,
    "refuse": refused_on_one_rank,
    "buffer": buffer_written,
    "families": lambda: {name: family(name, 1) for name in MAKERS},
    "checkpoints": checkpoints,
    "trace": traced,
    "trainer": trainer_on_ranks,
    "generate": refused_in_generation,
    "leave": one_leaves,
}


class Ranks(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        torch.set_num_threads(1)
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        saved_alone(cls.folder)
        cls.ranks = on_two_ranks(
            __file__, "plan", "train", "train_small", "fail", "read", "not_finite", "refuse",
            "buffer", "families",
            "checkpoints", "trace", "trainer", "generate", "leave",
            folder=folder.name,
        )

    def test_have_the_bits_of_one_rank(self) -> None:
        for work, accumulation in (("train", 2), ("train_small", 4)):
            alone = trained(accumulation, None, seed=5)
            for number, rank in enumerate(self.ranks):
                self.assertEqual(rank[work]["bits"], alone["bits"], work)
                summary = rank[work]["summary"]
                self.assertEqual(summary["world_size"], 2)
                self.assertEqual(summary["rank"], number)
                self.assertLessEqual(
                    summary["device_peak_bytes"], summary["device_budget_bytes"]
                )
        self.assertEqual(self.ranks[0]["train_small"]["summary"]["steps"], STEPS)

    def test_take_what_was_foreseen(self) -> None:
        longer = batch(0, 1)
        foreseen = castor.plan(gpt2(5), config(2, None), longer, world_size=2)
        summary = self.ranks[0]["train_small"]["summary"]
        for key in ("world_size", "parameters", "chunks"):
            self.assertEqual(foreseen.summary()[key], summary[key])
        ratio = (
            foreseen.smallest_device_budget_bytes
            / summary["smallest_device_budget_bytes"]
        )
        self.assertLess(abs(ratio - 1), 0.1)
        for rank in self.ranks:  # which ask within a launched process
            self.assertEqual(rank["plan"], foreseen.summary())

    def test_undo_a_step_that_fails_on_one_of_them(self) -> None:
        first, second = (rank["fail"] for rank in self.ranks)
        self.assertIn("rank 1", first["error"])
        self.assertIn("from the model", second["error"])
        for rank in (first, second):
            self.assertTrue(rank["unchanged"])
            self.assertEqual(rank["steps"], 2)

    def test_undo_a_step_with_a_gradient_that_is_not_finite_on_one(self) -> None:
        first, second = (rank["not_finite"] for rank in self.ranks)
        for told, skipped in (("undone", 1), ("spoiled", 0)):
            for rank in (first[told], second[told]):
                self.assertTrue(rank["unchanged"], told)
                self.assertEqual(rank["skipped"], skipped)
                self.assertEqual(rank["bits"], first[told]["bits"])
        for rank in (first, second):
            self.assertRegex(rank["undone"]["error"], r'is not finite \("[ab]\.\w+"\)')
            self.assertRegex(rank["spoiled"]["error"], "after step .*load a checkpoint")

    def test_are_told_where_they_read_other_parameters(self) -> None:
        for rank in (rank["read"] for rank in self.ranks):
            error = rank["error"]
            self.assertRegex(error, "ranks differ: rank 0 reads parameters at .*b.weight")
            self.assertIn("other.weight", error)
            self.assertTrue(rank["unchanged"])
            self.assertEqual(rank["steps"], 2)

    def test_are_refused_together(self) -> None:
        first, second = (rank["refuse"] for rank in self.ranks)
        self.assertIn("rank 1", first["refused"]["text"])
        self.assertEqual(first["refused"]["peak"], second["refused"]["peak"])
        self.assertEqual((first["steps"], second["steps"]), (2, 2))

    def test_checkpoints_move_to_and_from_one_rank(self) -> None:
        expected = trained(2, None, seed=5)["bits"]
        for number, rank in enumerate(r["checkpoints"] for r in self.ranks):
            self.assertEqual(rank["state of one"], ["one"])
            self.assertEqual(rank["bits"], expected)
            self.assertEqual(rank["state of two"], ["rank 0"])
            self.assertTrue(rank["draws again"], number)
        with castor.initialize(gpt2(6), config(2, None)) as engine:
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                _, state = engine.load_checkpoint(self.folder / "of two")
            self.assertIn("go on with rank 0's", str(told[0].message))
            self.assertEqual(state, ["rank 0"])
            self.assertEqual(go_on(engine), expected)

    def test_fail_together_where_one_cannot_save_or_load(self) -> None:
        for number, rank in enumerate(r["checkpoints"] for r in self.ranks):
            other = f"rank {1 - number}: "
            self.assertIn("ranks differ: rank 0 saves", rank["unlike"])
            self.assertIn("cannot be written as JSON", rank["no JSON"])
            self.assertEqual(other in rank["no JSON"], number == 0)
            self.assertIn("none: No such file", rank["missing"])
            self.assertIn("keep=0", rank["keep"])
            self.assertEqual(other in rank["keep"], number == 1)
            self.assertTrue(rank["unchanged"])
            self.assertEqual(rank["goes on"], rank["bits"])

    def test_refuse_buffers_that_forward_writes(self) -> None:
        for rank in self.ranks:
            self.assertIn("writes the buffer 1.", rank["buffer"]["error"])

    def test_train_every_family(self) -> None:
        # The first of these may happen to read the same on both ranks.
        refused = {"mixture": "ranks differ", "resnet": "writes the buffer"}
        for name in MAKERS:
            expected = family(name, 2)
            for rank in self.ranks:
                with self.subTest(name):
                    told = rank["families"][name]
                    if name in refused and told != expected:
                        self.assertIn(refused[name], told["error"])
                        self.assertNotIn("\n", told["error"].split("Exception")[0])
                    else:
                        self.assertEqual(told, expected)

    def test_trace_into_one_file(self) -> None:
        records = [
            json.loads(line)
            for line in (self.folder / "run.trace").read_text().splitlines()
        ]
        self.assertEqual([p.name for p in self.folder.glob("*.trace*")], ["run.trace"])

        def of_type(kind: str) -> list[Any]:
            return [r for r in records if isinstance(r, dict) and r.get("type") == kind]

        # Each part begins with a first line of its own.
        ranks = [r["ranks"] for r in records if isinstance(r, dict) and "format" in r]
        self.assertEqual(ranks, [2, 2])
        self.assertEqual([run["rank"] for run in of_type("run")], [0, 1])
        results = of_type("result")
        self.assertEqual(len(results), 2 * STEPS)
        for result in results:
            self.assertGreater(result["network_received_bytes"], 0)

    def test_train_by_trainer(self) -> None:
        import transformers

        environment = {"CASTOR_TEST_FOLDER": str(self.folder / "alone")}
        with mock.patch.dict(os.environ, environment):
            alone = trainer_trained(2)
            # One rank goes on from two ranks' checkpoint.
            checkpoint = self.folder / "trainer" / "checkpoint-2"
            self.assertEqual(trainer_trained(2, checkpoint)["bits"], alone["bits"])
            sequences = generated()
        self.assertEqual([15 in s for s in sequences], [True, True, False, True])
        self.assertEqual(alone["steps"], 6)
        for rank in (rank["trainer"] for rank in self.ranks):
            self.assertEqual(rank["steps"], 6)
            self.assertEqual(rank["bits"], alone["bits"])
            self.assertEqual(rank["resumed"], alone["bits"])
            self.assertEqual(rank["generated"], sequences)
            difference = torch.tensor(rank["predictions"]).sub(
                torch.tensor(alone["predictions"])
            )
            self.assertLess(difference.abs().max().item(), 1e-5)
            self.assertAlmostEqual(rank["eval_loss"], alone["eval_loss"], places=5)
            self.assertEqual(len(rank["losses"]), 6)
            for own, theirs in zip(rank["losses"], alone["losses"]):
                self.assertAlmostEqual(own, theirs, places=3)
        read = transformers.GPT2LMHeadModel.from_pretrained(
            self.folder / "trainer" / "model"
        )
        saved = [bytes_of(value).hex() for value in read.state_dict().values()]
        self.assertEqual(saved, alone["bits"])

    def test_are_refused_together_while_they_generate(self) -> None:
        first, second = (rank["generate"] for rank in self.ranks)
        self.assertIn("refused: ", second["refused"])
        self.assertEqual(first["refused"], f"rank 1: {second['refused']}")
        prompt = batch(0, 0)["input_ids"][:, :4]
        tokens = gpt2(5).eval().generate(
            input_ids=prompt, max_new_tokens=5, do_sample=False, pad_token_id=0
        )
        for rank in (first, second):
            self.assertEqual(rank["tokens"], tokens.tolist())

    def test_end_when_one_leaves(self) -> None:
        self.assertIn("rank 0", self.ranks[1]["leave"]["error"])


if __name__ == "__main__":
    if is_a_rank():
        do_as_a_rank(WORK)
    else:
        unittest.main()
