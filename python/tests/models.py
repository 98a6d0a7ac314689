"""Small random models with batches for them.

Each maker takes a random.Random and gives a `Case`: the same random state gives
the same sizes, values and batches. No dropout is in them unless asked for.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from torch import nn

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
torch.set_num_threads(1)  # such small operators only wait for each other


@dataclass
class Case:
    """`make` gives a new model, each time with the same values."""

    name: str
    make: Callable[[], nn.Module]
    batches: list[dict[str, Any]]  # of micro batches, in order


def _case(
    rng: random.Random,
    name: str,
    make: Callable[[], nn.Module],
    batch: Callable[[], dict[str, Any]],
    micro_batches: int,
) -> Case:
    seed = rng.randrange(1 << 30)

    def seeded() -> nn.Module:
        torch.manual_seed(seed)
        return make()

    torch.manual_seed(seed + 1)
    return Case(name, seeded, [batch() for _ in range(micro_batches)])


def _tokens(vocabulary: int, rows: int, length: int) -> torch.Tensor:
    return torch.randint(3, vocabulary, (rows, length))


def causal(
    kind: str, rng: random.Random, micro_batches: int, dropout: float = 0.0
) -> Case:
    heads = rng.choice([1, 2])
    width = heads * rng.choice([8, 16])
    layers = rng.choice([1, 2, 3])
    vocabulary = rng.randrange(20, 60)
    tie = rng.random() < 0.5
    rows, lengths = rng.choice([1, 2, 3]), [rng.choice([4, 7, 8])]
    if rng.random() < 0.4:  # no step need be like the one before
        lengths = [4, 7, 8]
    special = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}

    def make() -> nn.Module:
        if kind == "gpt2":
            return transformers.GPT2LMHeadModel(
                transformers.GPT2Config(
                    n_layer=layers, n_embd=width, n_head=heads, n_positions=16,
                    vocab_size=vocabulary, resid_pdrop=dropout,
                    embd_pdrop=dropout, attn_pdrop=dropout,
                    tie_word_embeddings=tie, **special,
                )
            )
        if kind == "opt":
            return transformers.OPTForCausalLM(
                transformers.OPTConfig(
                    num_hidden_layers=layers, hidden_size=width,
                    ffn_dim=2 * width, num_attention_heads=heads,
                    max_position_embeddings=16, vocab_size=vocabulary,
                    dropout=dropout, attention_dropout=0.0, layerdrop=0.0,
                    word_embed_proj_dim=width, tie_word_embeddings=tie,
                    **special,
                )
            )
        if kind == "neox":
            return transformers.GPTNeoXForCausalLM(
                transformers.GPTNeoXConfig(
                    num_hidden_layers=layers, hidden_size=width,
                    intermediate_size=2 * width, num_attention_heads=heads,
                    max_position_embeddings=16, vocab_size=vocabulary,
                    attention_dropout=0.0, hidden_dropout=dropout,
                    tie_word_embeddings=tie, **special,
                )
            )
        return transformers.LlamaForCausalLM(
            transformers.LlamaConfig(
                num_hidden_layers=layers, hidden_size=width,
                intermediate_size=2 * width, num_attention_heads=heads,
                num_key_value_heads=1, max_position_embeddings=16,
                vocab_size=vocabulary, tie_word_embeddings=tie, **special,
            )
        )

    def batch() -> dict[str, Any]:
        ids = _tokens(vocabulary, rows, rng.choice(lengths))
        return {"input_ids": ids, "labels": ids, "use_cache": False}

    return _case(rng, kind, make, batch, micro_batches)


def mixture(kind: str, rng: random.Random, micro_batches: int) -> Case:
    """Of experts. In "mixture" it depends on values which of them compute, and on
    how much; in the others operators depend on shapes alone. "mixture-grouped" has
    the products that transformers takes by itself."""
    vocabulary = rng.randrange(20, 60)
    layers = rng.choice([1, 2])
    sizes: dict[str, Any] = {
        "num_hidden_layers": layers, "hidden_size": 16, "intermediate_size": 16,
        "num_attention_heads": 2, "num_key_value_heads": 1,
        "max_position_embeddings": 16, "vocab_size": vocabulary,
        "num_experts_per_tok": 2, "bos_token_id": 0, "eos_token_id": 1,
        "pad_token_id": 2,
    }

    def make() -> nn.Module:
        if kind != "mixture":
            return transformers.Qwen3MoeForCausalLM(
                transformers.Qwen3MoeConfig(
                    num_experts=3, moe_intermediate_size=16, head_dim=8,
                    experts_implementation=f"{kind.removeprefix('mixture-')}_mm",
                    **sizes,
                )
            )
        return transformers.MixtralForCausalLM(
            transformers.MixtralConfig(
                num_local_experts=3, experts_implementation="eager", **sizes
            )
        )

    def batch() -> dict[str, Any]:
        ids = _tokens(vocabulary, 2, 6)
        return {"input_ids": ids, "labels": ids, "use_cache": False}

    return _case(rng, kind, make, batch, micro_batches)


def bart(rng: random.Random, micro_batches: int) -> Case:
    width, layers = rng.choice([8, 16]), rng.choice([1, 2])
    vocabulary = rng.randrange(20, 60)

    def make() -> nn.Module:
        return transformers.BartForConditionalGeneration(
            transformers.BartConfig(
                d_model=width, encoder_layers=layers, decoder_layers=layers,
                encoder_attention_heads=2, decoder_attention_heads=2,
                encoder_ffn_dim=2 * width, decoder_ffn_dim=2 * width,
                max_position_embeddings=16, vocab_size=vocabulary, dropout=0.0,
                pad_token_id=2, bos_token_id=0, eos_token_id=1,
                decoder_start_token_id=1,
            )
        )

    def batch() -> dict[str, Any]:
        return {
            "input_ids": _tokens(vocabulary, 2, 6),
            "labels": _tokens(vocabulary, 2, 5),
        }

    return _case(rng, "bart", make, batch, micro_batches)


def t5(rng: random.Random, micro_batches: int) -> Case:
    width, layers = rng.choice([8, 16]), rng.choice([1, 2])
    vocabulary = rng.randrange(20, 60)
    gated = rng.choice(["relu", "gated-gelu"])

    def make() -> nn.Module:
        return transformers.T5ForConditionalGeneration(
            transformers.T5Config(
                d_model=width, d_kv=8, d_ff=2 * width, num_layers=layers,
                num_heads=2, vocab_size=vocabulary, dropout_rate=0.0,
                relative_attention_num_buckets=8, feed_forward_proj=gated,
                decoder_start_token_id=0,
            )
        )

    def batch() -> dict[str, Any]:
        return {
            "input_ids": _tokens(vocabulary, 2, 6),
            "labels": _tokens(vocabulary, 2, 5),
        }

    return _case(rng, "t5", make, batch, micro_batches)


def bert(kind: str, rng: random.Random, micro_batches: int) -> Case:
    heads = rng.choice([1, 2])
    width, layers = heads * 8, rng.choice([1, 2])
    vocabulary = rng.randrange(20, 60)
    config = transformers.BertConfig(
        vocab_size=vocabulary, hidden_size=width, num_hidden_layers=layers,
        num_attention_heads=heads, intermediate_size=2 * width,
        max_position_embeddings=16, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0, num_labels=3,
    )

    def make() -> nn.Module:
        if kind == "bert-mlm":
            return transformers.BertForMaskedLM(config)
        return transformers.BertForSequenceClassification(config)

    def batch() -> dict[str, Any]:
        ids = _tokens(vocabulary, 3, 6)
        mask = torch.ones_like(ids)
        mask[0, 4:] = 0
        labels = ids if kind == "bert-mlm" else torch.randint(0, 3, (3,))
        return {"input_ids": ids, "attention_mask": mask, "labels": labels}

    return _case(rng, kind, make, batch, micro_batches)


def vit(rng: random.Random, micro_batches: int) -> Case:
    width, layers = rng.choice([8, 16]), rng.choice([1, 2])

    def make() -> nn.Module:
        return transformers.ViTForImageClassification(
            transformers.ViTConfig(
                hidden_size=width, num_hidden_layers=layers,
                num_attention_heads=2, intermediate_size=2 * width,
                image_size=8, patch_size=4, hidden_dropout_prob=0.0,
                attention_probs_dropout_prob=0.0, num_labels=4,
            )
        )

    def batch() -> dict[str, Any]:
        return {
            "pixel_values": torch.randn(2, 3, 8, 8),
            "labels": torch.randint(0, 4, (2,)),
        }

    return _case(rng, "vit", make, batch, micro_batches)


def distilbert(rng: random.Random, micro_batches: int) -> Case:
    heads = rng.choice([1, 2])
    width, layers = heads * 8, rng.choice([1, 2])
    vocabulary = rng.randrange(20, 60)

    def make() -> nn.Module:
        return transformers.DistilBertForTokenClassification(
            transformers.DistilBertConfig(
                vocab_size=vocabulary, dim=width, n_layers=layers, n_heads=heads,
                hidden_dim=2 * width, max_position_embeddings=16, dropout=0.0,
                attention_dropout=0.0, num_labels=3,
            )
        )

    def batch() -> dict[str, Any]:
        ids = _tokens(vocabulary, 3, 6)
        return {"input_ids": ids, "labels": torch.randint(0, 3, ids.shape)}

    return _case(rng, "distilbert", make, batch, micro_batches)


def resnet(rng: random.Random, micro_batches: int) -> Case:
    """Of convolutions, and with buffers that each forward pass writes."""
    widths = [rng.choice([4, 8]), 8]
    layer_type = rng.choice(["basic", "bottleneck"])

    def make() -> nn.Module:
        return transformers.ResNetForImageClassification(
            transformers.ResNetConfig(
                embedding_size=4, hidden_sizes=widths, depths=[1, 2],
                layer_type=layer_type, num_labels=4,
            )
        )

    def batch() -> dict[str, Any]:
        return {
            "pixel_values": torch.randn(2, 3, 16, 16),
            "labels": torch.randint(0, 4, (2,)),
        }

    return _case(rng, "resnet", make, batch, micro_batches)


def whisper(rng: random.Random, micro_batches: int) -> Case:
    """Speech to text: convolutions before an encoder, and a decoder."""
    width, layers = rng.choice([8, 16]), rng.choice([1, 2])
    vocabulary = rng.randrange(20, 60)

    def make() -> nn.Module:
        return transformers.WhisperForConditionalGeneration(
            transformers.WhisperConfig(
                vocab_size=vocabulary, num_mel_bins=4, d_model=width,
                encoder_layers=layers, decoder_layers=layers,
                encoder_attention_heads=2, decoder_attention_heads=2,
                encoder_ffn_dim=2 * width, decoder_ffn_dim=2 * width,
                max_source_positions=8, max_target_positions=16, dropout=0.0,
                pad_token_id=2, bos_token_id=0, eos_token_id=1,
                decoder_start_token_id=1, suppress_tokens=[],
                begin_suppress_tokens=[],
            )
        )

    def batch() -> dict[str, Any]:
        return {
            "input_features": torch.randn(2, 4, 16),
            "labels": _tokens(vocabulary, 2, 5),
            "use_cache": False,
        }

    return _case(rng, "whisper", make, batch, micro_batches)


class Odd(nn.Module):
    """What models do that is no chain of Linear layers: MultiheadAttention,
    which reads its child's weight; a ParameterList; a layer used three times;
    a tied weight read through a transpose; a parameter that no operator reads;
    a frozen one."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, width)
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.scales = nn.ParameterList(
            [nn.Parameter(torch.randn(width)) for _ in range(3)]
        )
        self.shared = nn.Linear(width, width)
        self.frozen = nn.Linear(width, width).requires_grad_(False)
        self.unused = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        for scale in self.scales:
            x = x + torch.tanh(self.shared(x * scale))
        x = x + self.attention(x, x, x, need_weights=False)[0]
        x = self.norm(self.frozen(x))
        logits = x @ self.embed.weight.t()
        return nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


def odd(rng: random.Random, micro_batches: int) -> Case:
    width = rng.choice([8, 12, 16])

    def batch() -> dict[str, Any]:
        ids = _tokens(20, 2, 5)
        return {"ids": ids, "labels": ids}

    return _case(rng, "odd", lambda: Odd(width), batch, micro_batches)


MAKERS: dict[str, Callable[[random.Random, int], Case]] = {
    "gpt2": lambda rng, n: causal("gpt2", rng, n),
    "gpt2-dropout": lambda rng, n: causal("gpt2", rng, n, dropout=0.2),
    "opt": lambda rng, n: causal("opt", rng, n),
    "llama": lambda rng, n: causal("llama", rng, n),
    "neox": lambda rng, n: causal("neox", rng, n),
    "mixture": lambda rng, n: mixture("mixture", rng, n),
    "mixture-batched": lambda rng, n: mixture("mixture-batched", rng, n),
    "mixture-grouped": lambda rng, n: mixture("mixture-grouped", rng, n),
    "t5": t5,
    "bart": bart,
    "whisper": whisper,
    "bert-class": lambda rng, n: bert("bert-class", rng, n),
    "bert-mlm": lambda rng, n: bert("bert-mlm", rng, n),
    "distilbert": distilbert,
    "vit": vit,
    "resnet": resnet,
    "odd": odd,
}


if torch.__version__.startswith(("2.9.", "2.10.")):
    # There transformers asks the experts for their address.
    del MAKERS["mixture-grouped"]


def vary(rng: random.Random, model: nn.Module) -> nn.Module:
    """The model with checkpointing of either kind, or frozen parts, by chance."""
    checkpoint = rng.choice([None, True, False])
    freeze = rng.random() < 0.3
    enable = getattr(model, "gradient_checkpointing_enable", None)
    supported = getattr(model, "supports_gradient_checkpointing", False)
    if freeze:
        for name, parameter in model.named_parameters():
            if "norm" in name.lower() or "ln_" in name:
                parameter.requires_grad_(False)
    if checkpoint is not None and enable is not None and supported:
        enable(gradient_checkpointing_kwargs={"use_reentrant": checkpoint})
        if checkpoint:
            # Reentrant checkpointing wants an input with a gradient.
            model.enable_input_require_grads()
    return model
