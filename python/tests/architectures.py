"""Small models of transformers, one for each architecture of docs/architectures.md."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
import transformers
from torch import nn

VOCABULARY = 64


@dataclasses.dataclass(frozen=True)
class Architecture:
    """A small model with random weights, and what it is trained with.

    Attributes:
        row: what the page calls it.
        make: the model, always with the same values.
        batch: the arguments of a micro batch, for its number.
    """

    row: str
    make: Callable[[], nn.Module]
    batch: Callable[[int], dict[str, Any]]


ALL: list[Architecture] = []


def _draws(number: int) -> torch.Generator:
    return torch.Generator().manual_seed(number)


def _text(number: int) -> dict[str, Any]:
    ids = torch.randint(3, VOCABULARY, (2, 16), generator=_draws(number))
    return {"input_ids": ids, "labels": ids.clone()}


def _pair(number: int) -> dict[str, Any]:
    ids = torch.randint(3, VOCABULARY, (2, 12), generator=_draws(number))
    return {"input_ids": ids, "labels": ids[:, :8].clone()}


def _image(number: int) -> dict[str, Any]:
    draws = _draws(number)
    return {
        "pixel_values": torch.randn(2, 3, 32, 32, generator=draws),
        "labels": torch.randint(0, 3, (2,), generator=draws),
    }


def _image_with_text(number: int) -> dict[str, Any]:
    draws = _draws(number)
    ids = torch.randint(3, VOCABULARY - 1, (3, 8), generator=draws)
    ids[:, -1] = VOCABULARY - 1  # the end of each
    pixels = torch.randn(3, 3, 32, 32, generator=draws)
    return {"input_ids": ids, "pixel_values": pixels, "return_loss": True}


def _text_about_image(number: int) -> dict[str, Any]:
    draws = _draws(number)
    ids = torch.randint(6, VOCABULARY, (2, 24), generator=draws)
    ids[:, 2:18] = 5  # where the image's patches come
    pixels = torch.randn(2, 3, 32, 32, generator=draws)
    return {"input_ids": ids, "labels": ids.clone(), "pixel_values": pixels}


def _spectrum(number: int) -> dict[str, Any]:
    draws = _draws(number)
    return {
        "input_features": torch.randn(2, 8, 64, generator=draws),
        "labels": torch.randint(3, VOCABULARY, (2, 8), generator=draws),
    }


def _wave(number: int) -> dict[str, Any]:
    draws = _draws(number)
    return {
        "input_values": torch.randn(2, 2000, generator=draws),
        "labels": torch.randint(1, 30, (2, 3), generator=draws),
    }


def _series(number: int) -> dict[str, Any]:
    draws = _draws(number)
    return {
        "past_values": torch.randn(2, 16, 3, generator=draws),
        "future_values": torch.randn(2, 4, 3, generator=draws),
    }


def _add(
    kind: str,
    config: str,
    batch: Callable[[int], dict[str, Any]] = _text,
    note: str = "",
    **keys: Any,
) -> None:
    def make() -> nn.Module:
        torch.manual_seed(1)
        model: nn.Module = getattr(transformers, kind)(
            getattr(transformers, config)(**keys)
        )
        return model

    row = f"`{kind}`" + (f", {note}" if note else "")
    ALL.append(Architecture(row, make, batch))


_SIZES: dict[str, Any] = {
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
_TOKENS: dict[str, Any] = {
    "vocab_size": VOCABULARY, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}
_LM: dict[str, Any] = {**_SIZES, **_TOKENS, "max_position_embeddings": 64}
_GROUPED: dict[str, Any] = {**_LM, "num_key_value_heads": 2}
_HEADS: dict[str, Any] = {**_GROUPED, "head_dim": 8}
_GPT: dict[str, Any] = {
    "vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 2, "n_head": 4,
    "n_positions": 64,
}
_EXPERTS: dict[str, Any] = {"num_experts_per_tok": 2, "moe_intermediate_size": 16}
_LATENT: dict[str, Any] = {
    **_LM, **_EXPERTS, "num_key_value_heads": 4, "q_lora_rank": 16, "kv_lora_rank": 8,
    "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 8,
    "n_routed_experts": 4, "first_k_dense_replace": 1, "n_shared_experts": 1,
    "n_group": 1, "topk_group": 1,
}
_MAMBA: dict[str, Any] = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2,
    "state_size": 8, "pad_token_id": 0,
}
_T5: dict[str, Any] = {
    "vocab_size": VOCABULARY, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2,
    "num_heads": 4, "decoder_start_token_id": 0,
}
_BART: dict[str, Any] = {
    "d_model": 32, "encoder_layers": 2, "decoder_layers": 2,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
}
_VISION: dict[str, Any] = {**_SIZES, "image_size": 32, "patch_size": 8}
_THREE: dict[str, Any] = {"batch": _image, "num_labels": 3}
_STAGES: dict[str, Any] = {**_THREE, "hidden_sizes": [8, 16], "depths": [1, 1]}

_add("LlamaForCausalLM", "LlamaConfig", **_GROUPED)
_add(
    "LlamaForCausalLM", "LlamaConfig", note="tied, with dropout", **_GROUPED,
    tie_word_embeddings=True, attention_dropout=0.1,
)
_add(
    "MistralForCausalLM", "MistralConfig", note="a sliding window", **_GROUPED,
    sliding_window=8,
)
_add("Qwen2ForCausalLM", "Qwen2Config", **_GROUPED)
_add("Qwen3ForCausalLM", "Qwen3Config", **_HEADS)
_add(
    "Qwen3MoeForCausalLM", "Qwen3MoeConfig", **_HEADS, **_EXPERTS, num_experts=4,
    output_router_logits=True,
)
_add(
    "Qwen3NextForCausalLM", "Qwen3NextConfig", **{**_HEADS, "num_hidden_layers": 4},
    **_EXPERTS, num_experts=4, shared_expert_intermediate_size=16,
    linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=8,
    linear_value_head_dim=8,
)
_add("GemmaForCausalLM", "GemmaConfig", **_HEADS)
_add("Gemma2ForCausalLM", "Gemma2Config", **_HEADS, sliding_window=8)
_add("Gemma3ForCausalLM", "Gemma3TextConfig", **_HEADS, sliding_window=8)
_add(
    "Gemma3nForCausalLM", "Gemma3nTextConfig", **{**_HEADS, "num_hidden_layers": 5},
    sliding_window=8, vocab_size_per_layer_input=VOCABULARY,
    hidden_size_per_layer_input=8, num_kv_shared_layers=0, laurel_rank=4,
)
_add("PhiForCausalLM", "PhiConfig", **_GROUPED)
_add("Phi3ForCausalLM", "Phi3Config", **_GROUPED)
_add("GPTNeoXForCausalLM", "GPTNeoXConfig", **_LM)
_add("GPT2LMHeadModel", "GPT2Config", **_GPT)
_add("GPTJForCausalLM", "GPTJConfig", **_GPT, rotary_dim=8)
_add(
    "BloomForCausalLM", "BloomConfig", vocab_size=VOCABULARY, hidden_size=32,
    n_layer=2, n_head=4,
)
_add(
    "FalconForCausalLM", "FalconConfig", vocab_size=VOCABULARY, hidden_size=32,
    num_hidden_layers=2, num_attention_heads=4,
)
_add(
    "MptForCausalLM", "MptConfig", vocab_size=VOCABULARY, d_model=32, n_layers=2,
    n_heads=4, max_seq_len=64,
)
_add(
    "OPTForCausalLM", "OPTConfig", vocab_size=VOCABULARY, hidden_size=32, ffn_dim=64,
    num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=64,
    word_embed_proj_dim=32,
)
_add("DeepseekV2ForCausalLM", "DeepseekV2Config", **_LATENT)
_add("DeepseekV3ForCausalLM", "DeepseekV3Config", **_LATENT)
_add("MixtralForCausalLM", "MixtralConfig", **_GROUPED, num_local_experts=4)
_add(
    "GptOssForCausalLM", "GptOssConfig", **_HEADS, num_local_experts=4,
    num_experts_per_tok=2, sliding_window=8,
)
_add(
    "Llama4ForCausalLM", "Llama4TextConfig", **_HEADS, num_local_experts=2,
    intermediate_size_mlp=64,
)
_add("CohereForCausalLM", "CohereConfig", **_GROUPED)
_add("Olmo2ForCausalLM", "Olmo2Config", **_GROUPED)
_add("GraniteForCausalLM", "GraniteConfig", **_GROUPED)
_add("StableLmForCausalLM", "StableLmConfig", **_GROUPED)
_add("MambaForCausalLM", "MambaConfig", **_MAMBA)
_add(
    "Mamba2ForCausalLM", "Mamba2Config", **_MAMBA, num_heads=8, head_dim=8,
    n_groups=1, chunk_size=8,
)
_add("FalconMambaForCausalLM", "FalconMambaConfig", **_MAMBA)
_add(
    "JambaForCausalLM", "JambaConfig", **_GROUPED, num_experts=2,
    num_experts_per_tok=1, attn_layer_period=2, attn_layer_offset=1,
    expert_layer_period=2, expert_layer_offset=1, mamba_d_state=8,
    use_mamba_kernels=False,
)
_add(
    "RecurrentGemmaForCausalLM", "RecurrentGemmaConfig",
    **{**_LM, "num_hidden_layers": 3}, lru_width=32, attention_window_size=16,
)
_add(
    "RwkvForCausalLM", "RwkvConfig", vocab_size=VOCABULARY, hidden_size=32,
    num_hidden_layers=2, context_length=64,
)
_add("BertForMaskedLM", "BertConfig", **_LM)
_add("RobertaForMaskedLM", "RobertaConfig", **_LM)
_add(
    "ModernBertForMaskedLM", "ModernBertConfig", **{**_LM, "num_hidden_layers": 3},
    cls_token_id=1, sep_token_id=2, attn_implementation="sdpa",
)
_add(
    "DebertaV2ForMaskedLM", "DebertaV2Config", **_LM, relative_attention=True,
    pos_att_type=["p2c", "c2p"], position_buckets=8, max_relative_positions=16,
)
_add("ElectraForMaskedLM", "ElectraConfig", **_LM, embedding_size=16)
_add("AlbertForMaskedLM", "AlbertConfig", **_LM, embedding_size=16)
_add(
    "DistilBertForMaskedLM", "DistilBertConfig", vocab_size=VOCABULARY, dim=32,
    hidden_dim=64, n_layers=2, n_heads=4, max_position_embeddings=64,
)
_add(
    "XLNetLMHeadModel", "XLNetConfig", vocab_size=VOCABULARY, d_model=32, n_layer=2,
    n_head=4, d_inner=64,
)
_add(
    "ReformerModelWithLMHead", "ReformerConfig", vocab_size=VOCABULARY,
    hidden_size=32, feed_forward_size=64, attention_head_size=8,
    num_attention_heads=4, attn_layers=["local", "lsh"], axial_pos_shape=(4, 4),
    axial_pos_embds_dim=(16, 16), is_decoder=True, num_buckets=2,
    lsh_attn_chunk_length=8, local_attn_chunk_length=8, max_position_embeddings=16,
    num_hashes=1, hash_seed=1,
    # It seeds these draws by the clock.
    hidden_dropout_prob=0.0, local_attention_probs_dropout_prob=0.0,
    lsh_attention_probs_dropout_prob=0.0,
)
_add("LongformerForMaskedLM", "LongformerConfig", **_LM, attention_window=8)
_add("BigBirdForMaskedLM", "BigBirdConfig", **_LM, attention_type="original_full")
_add("T5ForConditionalGeneration", "T5Config", batch=_pair, **_T5)
_add(
    "T5ForConditionalGeneration", "T5Config", batch=_pair, note="gated, not tied",
    **_T5, feed_forward_proj="gated-gelu", tie_word_embeddings=False,
)
for _kind in ("Bart", "Pegasus"):
    _add(
        f"{_kind}ForConditionalGeneration", f"{_kind}Config", batch=_pair,
        vocab_size=VOCABULARY, max_position_embeddings=64, **_BART,
    )
_add(
    "SwitchTransformersForConditionalGeneration", "SwitchTransformersConfig",
    batch=_pair, **_T5, num_experts=2,
)
for _kind in ("ViT", "DeiT", "Beit"):
    _add(f"{_kind}ForImageClassification", f"{_kind}Config", **_VISION, **_THREE)
_add(
    "Dinov2ForImageClassification", "Dinov2Config", hidden_size=32,
    num_hidden_layers=2, num_attention_heads=4, image_size=32, patch_size=8,
    drop_path_rate=0.1, **_THREE,
)
_add(
    "SwinForImageClassification", "SwinConfig", image_size=32, patch_size=4,
    embed_dim=16, depths=[1, 1], num_heads=[2, 2], window_size=4, **_THREE,
)
_add("ConvNextForImageClassification", "ConvNextConfig", num_stages=2, **_STAGES)
_add("ResNetForImageClassification", "ResNetConfig", embedding_size=8, **_STAGES)
_add(
    "SegformerForImageClassification", "SegformerConfig",
    hidden_sizes=[8, 16, 16, 16], num_attention_heads=[1, 2, 2, 2],
    depths=[1, 1, 1, 1], decoder_hidden_size=16, **_THREE,
)
_add(
    "WhisperForConditionalGeneration", "WhisperConfig", batch=_spectrum, **_TOKENS,
    **_BART, num_mel_bins=8, max_source_positions=32, max_target_positions=32,
    decoder_start_token_id=1, suppress_tokens=None, begin_suppress_tokens=None,
)
_add(
    "Wav2Vec2ForCTC", "Wav2Vec2Config", batch=_wave, **_SIZES, vocab_size=32,
    conv_dim=(16, 16, 16), conv_stride=(5, 4, 4), conv_kernel=(10, 4, 4),
    num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=2, mask_time_length=2,
    mask_time_prob=0.1,
)
_add(
    "CLIPModel", "CLIPConfig", batch=_image_with_text, projection_dim=16,
    vision_config=_VISION,
    text_config={
        **_SIZES, **_TOKENS, "max_position_embeddings": 16,
        "eos_token_id": VOCABULARY - 1,
    },
)
_add(
    "SiglipModel", "SiglipConfig", batch=_image_with_text, vision_config=_VISION,
    text_config={**_SIZES, "vocab_size": VOCABULARY, "max_position_embeddings": 16},
)
_add(
    "LlavaForConditionalGeneration", "LlavaConfig", batch=_text_about_image,
    vision_config={"model_type": "clip_vision_model", **_VISION},
    text_config={"model_type": "llama", **_GROUPED}, image_token_id=5,
    vision_feature_layer=-1,
)
_add(
    "PatchTSTForPrediction", "PatchTSTConfig", batch=_series, num_input_channels=3,
    context_length=16, patch_length=4, patch_stride=4, prediction_length=4,
    d_model=16, num_attention_heads=2, ffn_dim=32, num_hidden_layers=2,
)
