"""What the tests of examples/recipes share: small models and text, and plain PyTorch's
losses."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import castor
import tokenizers
import torch
import transformers

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
RECIPES = EXAMPLES / "recipes"
# The recipes' scripts.
sys.path[:0] = [
    str(EXAMPLES / "pytorch"), str(RECIPES / "deepspeed_bert"),
    str(RECIPES / "deepspeed_squad"), str(RECIPES / "bmtrain_boolq"),
    str(RECIPES / "flagai_t5"), str(RECIPES / "flagai_vit"), str(RECIPES / "sizes"),
]
import shared

STEPS = 20
TEXT = str(EXAMPLES.parent / "LICENSE")  # which does not change
TINY = dict(
    hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64
)


def plain_losses(
    model: torch.nn.Module, micro_batches: int, batches: Iterable[Any],
    loss_of: Callable[[Any], torch.Tensor], step: Callable[[int], Any],
) -> list[float]:
    """The loss of each micro batch; `step` is called with each step's number."""
    model.train()
    losses = []
    for index, batch in enumerate(batches):
        number, micro_batch = divmod(index, micro_batches)
        # Dropout draws as in the engine.
        torch.manual_seed(castor.generator_seed(1234, number + 1, micro_batch))
        loss = loss_of(batch)
        (loss / micro_batches).backward()
        losses.append(loss.item())
        if micro_batch == micro_batches - 1:
            step(number + 1)
    return losses


def settings(**values: Any) -> list[str]:
    return [
        word
        for key, value in values.items()
        for word in ("--set", f"{key.replace('__', '.')}={value}")
    ]


def paragraphs() -> list[tuple[str, str]]:
    """Of the text that does not change."""
    return [("", text) for text in Path(TEXT).read_text().split("\n\n") if text.split()]


def noam(step: int) -> float:
    """The rate of BMTrain's Noam from 1e-2, with a warm-up of ten steps."""
    done = step - 1
    return 1e-2 * (done / 10**1.5 if done <= 10 else done**-0.5)


def boolq_step(model: torch.nn.Module) -> Callable[[int], None]:
    """What ends a step of BMTrain's recipe, by its number: AdamW by Noam's rate, of
    gradients that are clipped to a norm of 10."""
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.01)

    def step(number: int) -> None:
        torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        optimizer.param_groups[0]["lr"] = noam(number)
        optimizer.step()
        optimizer.zero_grad()

    return step


def squad_step(model: torch.nn.Module, peak: float) -> Callable[[int], None]:
    """What ends a step of DeepSpeed's recipe of SQuAD, by its number: AdamW by
    WarmupDecayLR, which rises to `peak` in 4 of 40 steps, of clipped gradients."""
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.0)

    def step(number: int) -> None:
        done = number - 1
        rate = peak * (done / 4 if done < 4 else max(0.0, (40 - done) / 36))
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.param_groups[0]["lr"] = rate
        optimizer.step()
        optimizer.zero_grad()

    return step


def clipped_adamw(model: torch.nn.Module, **options: Any) -> Callable[[int], None]:
    """What ends a step: torch.optim.AdamW with `options`, of gradients that are clipped
    to a norm of 1."""
    optimizer = torch.optim.AdamW(model.parameters(), **options)

    def step(_: int) -> None:
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


class Moments:
    """The update of DeepSpeed's Adam, which is AdamW, and of its LAMB, without a
    correction of the moments: csrc/adam, csrc/lamb there."""

    def __init__(
        self, groups: list[dict[str, Any]], coefficients: tuple[float, ...] = ()
    ) -> None:
        self.coefficients = coefficients
        self.decays = {p: g.get("weight_decay", 0.01) for g in groups for p in g["params"]}
        self.moments = {p: (torch.zeros_like(p), torch.zeros_like(p)) for p in self.decays}

    @torch.no_grad()
    def step(self, rate: float) -> None:
        torch.nn.utils.clip_grad_norm_(self.decays, 1.0)
        for p, (m, v) in self.moments.items():
            m.mul_(0.9).add_(p.grad, alpha=0.1)
            v.mul_(0.999).addcmul_(p.grad, p.grad, value=0.001)
            update = m / (v.sqrt() + 1e-8) + self.decays[p] * p
            if self.coefficients and p.norm() > 0 and update.norm() > 0:
                update *= (p.norm() / update.norm()).clamp(*self.coefficients)
            p -= rate * update
            p.grad = None


def lamb_rate(step: int) -> float:
    """DeepSpeed's warmup_exp_decay_exp in two phases of ten steps, of which each counts
    anew, with a warm-up of four."""
    first = step <= 10
    done = step - 1 if first else step - 11
    rate, decay_step = (11e-3, 250) if first else (2e-3, 150)
    factor = (done / 4) ** 2 if done < 4 else 0.9 ** ((done - 4) / decay_step)
    return rate * factor + (10e-4 if first else 0.0)


def make_bert(folder: Path, model_class: Any) -> None:
    """A directory of Hugging Face's: a small BERT without dropout, and a tokenizer
    that knows the text's words."""
    words = shared.Words(text for _, text in paragraphs()).words
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordPiece(
            {word: i for i, word in enumerate(words)}, unk_token="[UNK]"
        )
    )
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
    )
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", cls_token="[CLS]",
        sep_token="[SEP]", mask_token="[MASK]", unk_token="[UNK]",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    ).save_pretrained(folder)
    torch.manual_seed(1)
    config = transformers.BertConfig(
        vocab_size=len(words), hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        **TINY,
    )
    model_class(config).save_pretrained(folder)
