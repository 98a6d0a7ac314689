"""Trains a ViT to tell drawn patterns apart.

    python examples/pytorch/vit.py [--model DIR] [--steps N]

vit.md is its page.
"""

import castor
import torch
import transformers

import shared

CLASSES = 4  # rows, columns, checks, discs


def draw_images(count, size, draw):
    """Images [count, 3, size, size] of a pattern in black and white, with noise,
    and their classes [count]."""
    labels = torch.randint(0, CLASSES, (count,), generator=draw)
    period = torch.randint(size // 8, size // 3, (count, 1, 1), generator=draw)
    shift = torch.randint(0, size, (2, count, 1, 1), generator=draw)
    y, x = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    rows = (y + shift[0]) // period % 2
    columns = (x + shift[1]) // period % 2
    middle = size // 4 + shift % (size // 2)
    discs = (y - middle[0]) ** 2 + (x - middle[1]) ** 2 < period**2
    patterns = torch.stack([rows, columns, rows ^ columns, discs.long()], 1)
    pattern = patterns[torch.arange(count), labels][:, None]
    noise = torch.randn(count, 3, size, size, generator=draw)
    return 2.0 * pattern - 1 + 0.2 * noise, labels


def load_model(directory):
    if directory:
        return transformers.AutoModelForImageClassification.from_pretrained(
            directory, num_labels=CLASSES, ignore_mismatched_sizes=True
        )
    torch.manual_seed(1)
    return transformers.ViTForImageClassification(
        transformers.ViTConfig(
            image_size=32, patch_size=8, hidden_size=192, num_hidden_layers=4,
            num_attention_heads=4, intermediate_size=768, num_labels=CLASSES,
        )
    )


def main():
    options = shared.arguments(__doc__, "vit", steps=80, batch=8).parse_args()
    with castor.ZeroInit(options.config):
        model = load_model(options.model)
    size = model.config.image_size
    draw = torch.Generator().manual_seed(2)
    held_out = draw_images(64, size, draw)

    def accuracy(engine):
        engine.eval()
        found = engine(held_out[0]).logits.argmax(-1)
        engine.train()
        return (found == held_out[1]).float().mean().item()

    with castor.initialize(model, options.config) as engine:
        print(f"of 64 other images {accuracy(engine):.0%} right")
        for step in range(1, options.steps + 1):
            batches = []
            for _ in range(engine.gradient_accumulation_steps):
                images, labels = draw_images(options.batch, size, draw)
                batches.append({"pixel_values": images, "labels": labels})
            loss = engine.train_batch(batches)
            print(f"step {step:>3}  loss {loss.item():.4f}")
        print(f"of 64 other images {accuracy(engine):.0%} right")
        shared.report(engine)
        if options.save:
            engine.save_pretrained(options.save)


if __name__ == "__main__":
    main()
