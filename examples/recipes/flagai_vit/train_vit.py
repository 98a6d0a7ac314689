"""Trains a ViT on CIFAR-100's images, as FlagAI's example does.

    python examples/recipes/flagai_vit/train_vit.py DIR [--name=value ...]

README.md is its page.
"""

import sys
from pathlib import Path

import torch
import transformers

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "flagai_t5"), str(HERE.parents[1] / "pytorch")]
from trainer import Trainer

FILES = ("train.bin", "test.bin")
CLASSES = 100
SIZE = 32
ROW = 2 + 3 * SIZE * SIZE  # two labels, and the pixels of three colours
MEAN = torch.tensor([0.4914, 0.4822, 0.4465])
DEVIATION = torch.tensor([0.2023, 0.1994, 0.2010])
SHAPE = dict(
    hidden_size=128, num_hidden_layers=4, num_attention_heads=4, intermediate_size=512
)


class MyTrainer(Trainer):
    def forward_step(self, data, model, mems):
        outputs = model(**data)
        return {"loss": outputs.loss, "logits": outputs.logits}


class Images(torch.utils.data.Dataset):
    """(image [3, 32, 32], label) of each row of one of the files of CIFAR-100's binary
    version: the label of twenty, the label of a hundred, red, green and blue."""

    def __init__(self, path):
        bytes_ = torch.from_file(
            str(path), size=path.stat().st_size, dtype=torch.uint8
        )
        if len(bytes_) == 0 or len(bytes_) % ROW != 0:
            raise SystemExit(
                f"train_vit: {path} has {len(bytes_)} bytes, which are no rows of {ROW}: "
                "give train.bin and test.bin of CIFAR-100's binary version"
            )
        self.rows = bytes_.view(-1, ROW)
        if int(self.rows[:, 1].max()) >= CLASSES:
            raise SystemExit(f"train_vit: {path} has a label that is not below {CLASSES}")

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        row = self.rows[index]
        image = row[2:].view(3, SIZE, SIZE) / 255
        image = (image - MEAN[:, None, None]) / DEVIATION[:, None, None]
        return image, int(row[1])


def make_files(folder, rows):
    """Stripes in ten widths and ten colours, a class each, with noise."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (name, count) in enumerate(zip(FILES, rows)):
        draw = torch.Generator().manual_seed(seed)
        label = torch.randint(CLASSES, (count,), generator=draw)
        width, colour = (label % 10 + 1)[:, None], label // 10
        shift = torch.randint(SIZE, (count, 1), generator=draw)
        stripes = ((torch.arange(SIZE) + shift) // width % 2)[:, None, None, :]
        # The colours are as far apart as ten can be on a circle.
        angle = colour[:, None] * (2 * torch.pi / 10) + torch.arange(3) * (2 * torch.pi / 3)
        tint = (127 + 100 * angle.cos())[:, :, None, None]
        noise = 20 * torch.randn(count, 3, SIZE, SIZE, generator=draw)
        pixels = (tint * (0.4 + 0.6 * stripes) + noise).clamp(0, 255).to(torch.uint8)
        labels = torch.stack([label // 5, label], 1).to(torch.uint8)
        data = torch.cat([labels, pixels.flatten(1)], 1)
        (folder / name).write_bytes(data.numpy().tobytes())


def load_model():
    torch.manual_seed(1)
    return transformers.ViTForImageClassification(
        transformers.ViTConfig(
            image_size=SIZE, patch_size=4, num_labels=CLASSES, **SHAPE
        )
    )


def collate(rows):
    images, labels = zip(*rows)
    return {"pixel_values": torch.stack(images), "labels": torch.tensor(labels)}


def validate(logits, labels, meta=None):
    return (logits.argmax(1) == labels).float().mean().item()


def main(given=None, rows=(640, 160)):
    folder, *more = sys.argv[1:] if given is None else given
    folder = Path(folder)
    missing = [name for name in FILES if not (folder / name).exists()]
    if len(missing) == 1:
        raise SystemExit(f"train_vit: {folder} lacks {missing[0]}: give both {FILES}")
    if missing:
        make_files(folder, rows)
        print(f"{folder} has no CIFAR-100: made {rows[0]} + {rows[1]} images of stripes")
    trainer = MyTrainer(
        more, env_type="pytorch", epochs=1, batch_size=16, lr=2e-5, weight_decay=1e-5,
        eval_interval=20, log_interval=10, experiment_name="vit", num_gpus=1,
        training_script=__file__,
    )
    train, held_out = (Images(folder / name) for name in FILES)
    return trainer.train(
        load_model(), train, held_out, collate, metric_methods=[["accuracy", validate]]
    )


if __name__ == "__main__":
    main()
