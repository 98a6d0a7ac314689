#!/usr/bin/env python3
"""Checks a directory that `castor export` wrote against transformers.

usage: tools/check_export.py CASTOR EXPORTED [--reference DIR]

CASTOR is the program, EXPORTED the directory. Three checks:

1. transformers loads EXPORTED, with no parameter missing and none unknown.
2. With --reference, a Hugging Face directory of the same model and weights:
   the logits of both are equal, bit for bit.
3. `castor train` starts from EXPORTED and reports the loss of a random batch
   before its first update; transformers' loss of that batch, in float64, is the
   same but for float32's roundings.

Wants torch and transformers; not part of the tests.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
from transformers import GPT2LMHeadModel

# How far losses may lie apart, relatively: float32's unit times some hundred
# operations in a row.
TOLERANCE = 2e-5


def load(directory):
    model, info = GPT2LMHeadModel.from_pretrained(
        directory, output_loading_info=True, dtype=torch.float32)
    missing = set(info["missing_keys"])
    if model.config.tie_word_embeddings:  # it is not stored twice
        missing.discard("lm_head.weight")
    if missing or info["unexpected_keys"] or info["mismatched_keys"]:
        sys.exit(f"check_export: {directory}: missing {sorted(missing)}, "
                 f"unexpected {info['unexpected_keys']}, "
                 f"of another shape {info['mismatched_keys']}")
    return model.eval()


def castor_loss(castor, exported, tokens, batch, length):
    """Castor's loss of the samples, by a step with a learning rate of 0."""
    with tempfile.TemporaryDirectory() as scratch:
        path = pathlib.Path(scratch)
        (path / "tokens.bin").write_bytes(
            b"".join(int(t).to_bytes(4, "little") for t in tokens))
        (path / "run.json").write_text(json.dumps({
            "model": {"pretrained": str(pathlib.Path(exported).resolve()),
                      "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0},
            "data": {"train": "tokens.bin", "token_type": "uint32",
                     "sequence_length": length, "shuffle": False},
            "steps": 1, "checkpoint": False, "train_batch_size": batch,
            "optimizer": {"params": {"lr": 0}}}))
        subprocess.run([castor, "train", str(path / "run.json"),
                        "--summary", str(path / "summary.json")],
                       check=True, stdout=subprocess.DEVNULL)
        return json.loads((path / "summary.json").read_text())["first_loss"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("castor")
    parser.add_argument("exported")
    parser.add_argument("--reference")
    arguments = parser.parse_args()

    model = load(arguments.exported)
    config = model.config
    parameters = sum(p.numel() for p in model.parameters())
    print(f"transformers loads {arguments.exported}: {parameters} parameters")

    batch, length = 2, min(64, config.n_positions)
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(config.vocab_size, (batch * length + 1,),
                           generator=generator)
    inputs = tokens[:-1].view(batch, length)
    targets = tokens[1:].view(batch, length)
    with torch.no_grad():
        logits = model(inputs).logits
        if arguments.reference:
            expected = load(arguments.reference)(inputs).logits
            if not torch.equal(logits, expected):
                sys.exit("check_export: logits differ by up to "
                         f"{(logits - expected).abs().max().item():g}")
            print(f"logits equal those of {arguments.reference}, bit for bit")
        exact = model.double()(inputs).logits
        loss = torch.nn.functional.cross_entropy(
            exact.view(-1, config.vocab_size), targets.reshape(-1)).item()
    ours = castor_loss(arguments.castor, arguments.exported, tokens.tolist(),
                       batch, length)
    error = abs(ours - loss) / loss
    print(f"loss: castor {ours:.9g}, transformers in float64 {loss:.9g}, "
          f"relative difference {error:.2g}")
    if error > TOLERANCE:
        sys.exit(f"check_export: that is more than {TOLERANCE:g}")


if __name__ == "__main__":
    main()
