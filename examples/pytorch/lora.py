"""Fine-tunes LoRA adapters of peft on a Llama.

    python examples/pytorch/lora.py [--model DIR] [--text FILE] [--steps N]

It learns the pages in docs/, or FILE; --held-out FILE judges it on another.

lora.md is its page.
"""

from pathlib import Path

import castor
import peft
import torch
import transformers

import shared

LENGTH = 64
HELD_OUT = 32  # pieces of the held-out text, from its beginning


def load_model(directory, vocabulary):
    if directory:
        return transformers.AutoModelForCausalLM.from_pretrained(directory)
    torch.manual_seed(1)
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=vocabulary, hidden_size=256, intermediate_size=768,
            num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
            max_position_embeddings=LENGTH,
        )
    )


def lines_of(path):
    return Path(path).read_text(encoding="utf-8").splitlines(keepends=True)


def main():
    parser = shared.arguments(__doc__, "lora", steps=30, batch=4)
    parser.add_argument("--text", help="what to learn from; default: docs/")
    parser.add_argument("--held-out", help="what to tell the loss on, before and after")
    options = parser.parse_args()
    texts = [text for _, text in shared.paragraphs()]
    if options.text:
        texts = lines_of(options.text)
    words = shared.Words(texts, options.model)
    tokens = torch.tensor([number for text in texts for number in words.ids(text)])
    with castor.ZeroInit(options.config):
        model = load_model(options.model, words.size)
    adapters = peft.LoraConfig(
        r=8, lora_alpha=16, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"
    )
    model = peft.get_peft_model(model, adapters)
    model.print_trainable_parameters()
    draw = torch.Generator().manual_seed(2)

    def next_batch():
        last = len(tokens) - LENGTH
        rows = torch.randint(0, last, (options.batch,), generator=draw)
        ids = torch.stack([tokens[row : row + LENGTH] for row in rows])
        return {"input_ids": ids, "labels": ids}

    def judge(engine):
        if not options.held_out:
            return
        ids = [n for text in lines_of(options.held_out) for n in words.ids(text)]
        pieces = torch.tensor(ids[: HELD_OUT * LENGTH]).view(-1, LENGTH)
        engine.eval()
        losses = [
            engine(input_ids=rows, labels=rows).loss.item()
            for rows in pieces.split(options.batch)
        ]
        print(f"loss on {options.held_out}: {sum(losses) / len(losses):.4f}")

    with castor.initialize(model, options.config) as engine:
        judge(engine)
        engine.train()
        for step in range(1, options.steps + 1):
            batches = [next_batch() for _ in range(engine.gradient_accumulation_steps)]
            loss = engine.train_batch(batches)
            print(f"step {step:>3}  loss {loss.item():.4f}")
        judge(engine)
        shared.report(engine)
        if options.save:
            engine.save_pretrained(options.save)  # the adapters alone


if __name__ == "__main__":
    main()
