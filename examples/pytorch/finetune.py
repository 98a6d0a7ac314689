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


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", required=True, help="what to learn from")
    parser.add_argument("--model", help="a directory of Hugging Face's")
    parser.add_argument("--config", default=str(CONFIG))
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--batch", type=int, default=4, help="of a micro batch")
    parser.add_argument("--length", type=int, default=128, help="in tokens")
    parser.add_argument("--save", help="a directory for the trained model")
    return parser.parse_args()


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


def main():
    arguments = parse_arguments()
    with castor.ZeroInit(arguments.config):
        model = load_model(arguments.model)
    tokens = load_tokens(arguments.text, arguments.model)
    draw = random.Random(1)
    last = len(tokens) - arguments.length
    if last < 1:
        raise SystemExit(
            f"finetune: {arguments.text} has {len(tokens)} tokens; give a text of "
            f"more than --length={arguments.length}"
        )

    def next_batch():
        rows = [draw.randrange(last) for _ in range(arguments.batch)]
        ids = torch.stack([tokens[r : r + arguments.length] for r in rows])
        return {"input_ids": ids, "labels": ids}

    with castor.initialize(model, arguments.config) as engine:
        for step in range(1, arguments.steps + 1):
            batches = (
                next_batch() for _ in range(engine.gradient_accumulation_steps)
            )
            loss = engine.train_batch(batches)
            print(f"step {step:>3}  loss {loss.item():.4f}")
        shared.report(engine)
        if arguments.save:
            engine.save_pretrained(arguments.save)


if __name__ == "__main__":
    try:
        main()
    except castor.Refused as refusal:
        raise SystemExit(f"finetune: {refusal}")
