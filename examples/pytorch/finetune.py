"""Fine-tunes a causal language model of transformers in less device memory than it
needs.

    python examples/pytorch/finetune.py --text FILE [--model DIR] [--steps N]

finetune.md is its page.
"""

import argparse
import random
from pathlib import Path

import castor
import torch
import transformers

import shared

CONFIG = Path(__file__).parent / "finetune.json"


def parse_arguments(given):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", required=True, help="what to learn from")
    parser.add_argument("--model", help="a directory of Hugging Face's")
    parser.add_argument("--config", default=str(CONFIG))
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--batch", type=int, default=4, help="of a micro batch")
    parser.add_argument("--length", type=int, default=128, help="in tokens")
    parser.add_argument("--save", help="a directory for the trained model")
    return parser.parse_args(given)


def load_model(directory):
    if directory:
        return transformers.AutoModelForCausalLM.from_pretrained(directory)
    torch.manual_seed(1)
    return transformers.OPTForCausalLM(
        transformers.OPTConfig(
            vocab_size=256,
            hidden_size=256,
            ffn_dim=1024,
            num_hidden_layers=8,
            num_attention_heads=8,
            word_embed_proj_dim=256,
            max_position_embeddings=512,
            pad_token_id=None,
        )
    )


def load_tokens(text, directory):
    text = Path(text).read_bytes()
    if not directory:
        return torch.tensor(list(text))
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    return tokenizer(text.decode("utf-8"), return_tensors="pt").input_ids[0]


def batch_of(tokens, rows, length, index):
    """The inputs of micro batch `index` of a run."""
    draw = random.Random(index)
    begins = [draw.randrange(len(tokens) - length) for _ in range(rows)]
    ids = torch.stack([tokens[first : first + length] for first in begins])
    return {"input_ids": ids, "labels": ids}


def main(given=None):
    arguments = parse_arguments(given)
    with castor.ZeroInit(arguments.config):
        model = load_model(arguments.model)
    tokens = load_tokens(arguments.text, arguments.model)
    if len(tokens) <= arguments.length:
        raise SystemExit(
            f"finetune: {arguments.text} has {len(tokens)} tokens; give a text of "
            f"more than --length={arguments.length}"
        )

    losses = []
    with castor.initialize(model, arguments.config) as engine:
        micro_batches = engine.gradient_accumulation_steps
        for step in range(arguments.steps):
            first = step * micro_batches
            # Several ranks take the micro batches by turns.
            loss = engine.train_batch(
                batch_of(
                    tokens, arguments.batch, arguments.length,
                    index * engine.world_size + engine.rank,
                )
                for index in range(first, first + micro_batches)
            )
            losses.append(loss.item())
            if engine.rank == 0:
                print(f"step {step + 1:>3}  loss {losses[-1]:.4f}")
        if engine.rank == 0:
            shared.report(engine)
        if arguments.save:
            engine.save_pretrained(arguments.save)
    return losses


if __name__ == "__main__":
    try:
        main()
    except castor.Refused as refusal:
        raise SystemExit(f"finetune: {refusal}")
