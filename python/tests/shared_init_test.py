"""Models that two ranks make together under ZeroInit: their values, and what the
host of each holds."""

from __future__ import annotations

import hashlib
import os
import random
import tempfile
import threading
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

import castor
import torch
import transformers
from castor import _shared_init
from torch import nn

from models import MAKERS
from promises_test import bytes_of, config_of
from two_ranks import do_as_a_rank, is_a_rank, on_two_ranks

CONFIG = config_of(1, False, None)
AUTO = transformers.AutoModelForCausalLM


def folder() -> Path:
    return Path(os.environ["CASTOR_TEST_FOLDER"])


def rank() -> int:
    return int(os.environ.get("RANK", "0"))


def wide_gpt2() -> transformers.GPT2Config:
    return transformers.GPT2Config(
        vocab_size=300, n_embd=128, n_layer=3, n_head=2, n_positions=32,
        bos_token_id=0, eos_token_id=1,
    )


class ReadsWhatWasMade(nn.Module):
    """Parts that are copied, rescaled, tied and converted when others have been
    made since."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, 64)
        self.stack = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(32, 2, 64), 3, enable_nested_tensor=False
        )
        self.orthogonal = nn.Parameter(torch.empty(64, 64))
        self.second = nn.Linear(64, 64)
        self.tied = nn.Linear(64, 64)
        self.tied.weight = self.second.weight
        nn.init.orthogonal_(self.orthogonal)
        nn.init.trunc_normal_(self.first.weight)
        with torch.no_grad():
            self.first.weight.mul_(0.5)
            self.first.weight[3].zero_()
            self.second.weight.copy_(self.first.weight.T)
            self.first.weight[:2].fill_(self.orthogonal.sum().item())
        self.half = nn.Linear(64, 64).half()
        self.scale = nn.Parameter(self.first.weight.detach().abs().amax(0))


def converted() -> nn.Module:
    return AUTO.from_pretrained(folder() / "gpt2", dtype=torch.bfloat16)


MODELS: dict[str, Callable[[], nn.Module]] = {
    **{
        name: lambda name=name: MAKERS[name](random.Random(name), 1).make()
        for name in ("mixture", "t5", "vit", "odd")
    },
    "reads": ReadsWhatWasMade,
    "layers": lambda: nn.Sequential(*[nn.Linear(100, 80) for _ in range(8)]),
    "from_config": lambda: AUTO.from_config(wide_gpt2()),
    "from_pretrained": lambda: AUTO.from_pretrained(folder() / "gpt2"),
    # A head that the file does not have is drawn.
    "new head": lambda: transformers.GPT2ForSequenceClassification.from_pretrained(
        folder() / "gpt2"
    ),
    "converted": converted,
}
# Those that hold no more than is asked for; others are made of copies.
BOUNDED = ["layers", "from_config", "from_pretrained", "new head", "converted"]


def digest(state: dict[str, torch.Tensor]) -> dict[str, str]:
    return {
        name: hashlib.sha256(bytes_of(value.float())).hexdigest()
        for name, value in state.items()
        if value.is_floating_point()
    }


def blocks_of(model: nn.Module) -> tuple[int, int, int]:
    """The bytes of the parameters and of the buffers, and of the two largest of
    them together, each counted as a block."""
    def block(tensor: torch.Tensor) -> int:
        return 64 + (tensor.nbytes + 63) // 64 * 64

    parameters = [block(p) for p in model.parameters()]
    buffers = [block(b) for b in model.buffers()]
    return sum(parameters), sum(buffers), sum(sorted(parameters + buffers)[-2:])


def made() -> dict[str, Any]:
    """What this rank gets of each model, and what it held of it."""
    _shared_init.LEAST_BYTES = 64  # so that they have what is shared
    told = {}
    for name, make in MODELS.items():
        torch.manual_seed(7 + 100 * rank())
        with castor.ZeroInit(CONFIG) as scope:
            model = make()
        drawn = torch.rand(1).item()
        parameters, buffers, largest = blocks_of(model)
        held = scope.host_bytes
        with castor.initialize(model) as engine:
            told[name] = {
                "values": digest(engine.state_dict()),
                "drawn": drawn,
                "held": held,
                "peak": scope.host_peak_bytes,
                "parameters": parameters,
                "buffers": buffers,
                "largest": largest,
                "left": scope.host_bytes,
            }
            if name == "from_config":
                engine.save_pretrained(folder() / "saved")
    return told


def anonymous_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return 1024 * int(line.split()[1])
    raise AssertionError


def process() -> dict[str, int]:
    """What making a model and taking it over takes of the process's memory."""
    castor.initialize(nn.Linear(8, 8), {}).close()
    # After a large block was freed the C library takes smaller ones from its
    # heap, where what is freed stays.
    torch.zeros(1 << 22)
    peak, over = 0, threading.Event()
    before = anonymous_bytes()

    def watch() -> None:
        nonlocal peak
        while not over.wait(0.001):
            peak = max(peak, anonymous_bytes() - before)

    watcher = threading.Thread(target=watch)
    watcher.start()
    with castor.ZeroInit({}):
        model = nn.Sequential(*[nn.Linear(512, 1024) for _ in range(40)])
    model.requires_grad_(False)
    model[0].bias.requires_grad_(True)
    engine = castor.initialize(model)
    over.set()
    watcher.join()
    managed = engine.summary()["host_peak_bytes"]
    engine.close()
    sizes = [4 * p.numel() for p in model.parameters()]
    return {"model": sum(sizes), "largest": max(sizes), "managed": managed, "peak": peak}


def message_of(call: Callable[[], Any]) -> str:
    try:
        call()
    except (RuntimeError, ValueError, KeyError) as error:
        return repr(error)
    return ""


def wrong() -> dict[str, str]:
    def fails_on_one() -> None:
        with castor.ZeroInit(CONFIG):
            nn.Linear(64, 64)
            if rank() == 1:
                raise KeyError("on rank 1 alone")

    def draws_more_on_one() -> None:
        with castor.ZeroInit(CONFIG):
            nn.Linear(64, 64)
            torch.rand(1 + rank())

    def reads_other_on_one() -> None:
        with castor.ZeroInit(CONFIG):
            layers = [nn.Linear(64, 64) for _ in range(3)]
            layers[rank()].weight.sum().item()

    with castor.ZeroInit(CONFIG):
        model = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64))
    told = {
        "read": message_of(lambda: model[0].weight.sum()),
        "write": message_of(lambda: model[1].weight.data.zero_()),
        "fails": message_of(fails_on_one),
        "draws": message_of(draws_more_on_one),
        "reads": message_of(reads_other_on_one),
    }
    # All is as it was, and a scope that ends at initialize is one, too.
    with castor.ZeroInit(CONFIG):
        inner = nn.Sequential(model, nn.Linear(64, 64))
        with castor.initialize(inner) as engine:
            own = torch.ones(2000) * rank()
            told["own"] = str(own[0].item())
            told["after"] = str(len(engine.state_dict()))
    return told


class SharedInit(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        os.environ["CASTOR_TEST_FOLDER"] = directory.name
        AUTO.from_config(wide_gpt2()).save_pretrained(folder() / "gpt2")
        cls.ranks = on_two_ranks(
            __file__, "process", "made", "wrong", folder=directory.name
        )

    def test_has_the_values_of_one_rank(self) -> None:
        for name, make in MODELS.items():
            torch.manual_seed(7)
            model = make()
            expected = digest(model.state_dict())
            drawn = torch.rand(1).item()
            for told in self.ranks:
                with self.subTest(name):
                    self.assertEqual(told["made"][name]["values"], expected)
            self.assertEqual(self.ranks[0]["made"][name]["drawn"], drawn)
        torch.manual_seed(7)
        whole = MODELS["from_config"]()
        saved = AUTO.from_pretrained(folder() / "saved")
        self.assertEqual(digest(saved.state_dict()), digest(whole.state_dict()))
        self.assertIs(saved.lm_head.weight, saved.transformer.wte.weight)

    def test_holds_a_share_and_two_tensors(self) -> None:
        for told in self.ranks:
            for name in BOUNDED:
                with self.subTest(name):
                    one = told["made"][name]
                    share = one["parameters"] // 2 + one["buffers"]
                    self.assertLessEqual(one["peak"], share + one["largest"])
                    self.assertLessEqual(one["held"], share + one["largest"] // 2)
                    self.assertLessEqual(one["left"], one["buffers"] + 2048)
        # Together they hold all of it. What is not converted is the file, mapped.
        for name in set(BOUNDED) - {"from_pretrained", "new head"}:
            one, other = (told["made"][name] for told in self.ranks)
            self.assertGreaterEqual(one["held"] + other["held"], one["parameters"])

    def test_holds_a_share_of_the_process(self) -> None:
        for told in self.ranks:
            one = told["process"]
            # Values that are handed over leave as managed memory fills.
            bound = one["managed"] + 2 * one["largest"] + one["model"] // 8
            self.assertLess(bound, one["model"] * 3 // 4)
            self.assertLess(one["peak"], bound)

    def test_tells_what_ranks_do_not_do_alike(self) -> None:
        first, second = (told["wrong"] for told in self.ranks)
        for told in (first, second):
            self.assertIn("Linear.weight is shared among the ranks", told["read"])
            self.assertIn("Linear.weight is shared among the ranks", told["write"])
            self.assertIn("random numbers drawn up to", told["draws"])
            self.assertIn("the ranks disagree", told["reads"])
            self.assertEqual(told["after"], "6")
        self.assertIn("rank 1: castor.ZeroInit: KeyError", first["fails"])
        self.assertIn("on rank 1 alone", second["fails"])
        self.assertEqual((first["own"], second["own"]), ("0.0", "1.0"))


if __name__ == "__main__":
    if is_a_rank():
        do_as_a_rank({"process": process, "made": made, "wrong": wrong})
    else:
        unittest.main()
