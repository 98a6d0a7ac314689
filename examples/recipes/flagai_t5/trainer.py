"""A trainer with the arguments of FlagAI's, on Castor's engine."""

import argparse
import os
import sys

import castor
import torch

import shared

# FlagAI's arguments, each also as --name=value, which wins.
DEFAULTS = dict(
    env_type="pytorch", epochs=1, batch_size=1, eval_interval=10, log_interval=10,
    experiment_name="glm", load_dir="", save_dir="", save_interval=0,
    num_checkpoints=1, lr=1e-4, weight_decay=0.0, gradient_accumulation_steps=1,
    fp16=False, pytorch_device="cpu", master_ip="localhost", master_port=17750,
    num_nodes=1, num_gpus=1, hostfile="", training_script="", deepspeed_config="",
    model_paralle_size=1, checkpoint_activations=False,
)


def yes_or_no(text):
    if text.lower() not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"expected true or false, found {text!r}")
    return text.lower() == "true"


class Trainer:
    """forward_step, which gives a dictionary with "loss", is the user's to override.
    `given`: arguments like those of the command line."""

    def __init__(self, given=None, **settings):
        unknown = set(settings) - set(DEFAULTS)
        if unknown:
            raise TypeError(f"Trainer has no {', '.join(sorted(unknown))}")
        parser = argparse.ArgumentParser(description=__doc__)
        for name, default in DEFAULTS.items():
            kind = yes_or_no if isinstance(default, bool) else type(default)
            parser.add_argument(
                f"--{name}", type=kind, default=settings.get(name, default)
            )
        parser.parse_args(given, namespace=self)
        known = ("pytorch", "pytorchDDP", "deepspeed")
        if self.env_type not in known or self.model_paralle_size != 1:
            parser.error(
                f"env_type is {self.env_type}, model_paralle_size "
                f"{self.model_paralle_size}: Castor divides batches over ranks, not "
                f"matrices; take one of {', '.join(known)}, and 1"
            )
        if self.num_nodes != 1 or self.hostfile:
            parser.error(
                "num_nodes and hostfile start ranks on several machines; use torchrun"
            )
        if self.env_type == "deepspeed" and not self.deepspeed_config:
            parser.error("env_type is deepspeed: give deepspeed_config")
        if self.env_type != "pytorch" and self.num_gpus > 1 and "RANK" not in os.environ:
            script = [self.training_script or sys.argv[0], *sys.argv[1:]]
            launcher = [
                "-m", "torch.distributed.run", f"--nproc_per_node={self.num_gpus}",
                f"--master_addr={self.master_ip}", f"--master_port={self.master_port}",
            ]
            os.execv(sys.executable, [sys.executable, *launcher, *script])

    def config(self):
        """With env_type deepspeed the file says it all, as with FlagAI."""
        if self.env_type == "deepspeed":
            return self.deepspeed_config
        params = {"lr": self.lr, "weight_decay": self.weight_decay}
        return {
            "train_micro_batch_size_per_gpu": self.batch_size,
            "gradient_accumulation_steps": self.gradient_accumulation_steps,
            "gradient_clipping": 1.0,
            "optimizer": {"type": "AdamW", "params": params},
            "fp16": {"enabled": self.fp16},
            "device": {"type": "host" if self.pytorch_device == "cpu" else "cuda"},
        }

    def forward_step(self, data, model, mems):
        raise NotImplementedError

    def train(
        self, model, train_dataset, valid_dataset=None, collate_fn=None,
        metric_methods=(),
    ):
        """Trains for the epochs; gives the loss of each micro batch of this rank.
        `metric_methods`: [name, function of (logits, labels)] of what each evaluation
        says beside the loss, as a mean over its rows."""
        self.metric_methods = metric_methods
        if self.checkpoint_activations:
            model.gradient_checkpointing_enable()
        engine, *_ = castor.deepspeed_initialize(model=model, config=self.config())
        with engine:
            if self.load_dir:
                engine.load_checkpoint(self.load_dir)
            losses = self._train(engine, train_dataset, valid_dataset, collate_fn)
            if engine.rank == 0:
                shared.report(engine)
        return losses

    def _train(self, engine, train_dataset, valid_dataset, collate_fn):
        size = engine.train_micro_batch_size_per_gpu()
        losses, loaded, step = [], engine.global_steps, 0
        micro_batches = engine.gradient_accumulation_steps()
        per_step = micro_batches * engine.world_size
        for epoch in range(self.epochs):
            draw = torch.Generator().manual_seed(epoch)
            order = torch.randperm(len(train_dataset), generator=draw).tolist()
            order = order[: len(order) // (size * per_step) * (size * per_step)]
            parts = [order[i : i + size] for i in range(0, len(order), size)]
            for first in range(0, len(parts), per_step):
                step += 1
                if step <= loaded:
                    continue
                # Ranks take the micro batches by turns.
                last = first + per_step
                for rows in parts[first + engine.rank : last : engine.world_size]:
                    _, outputs = self._forward(engine, train_dataset, rows, collate_fn)
                    engine.backward(outputs["loss"])
                    losses.append(outputs["loss"].item())
                    engine.step()
                if engine.rank == 0 and step % self.log_interval == 0:
                    print(f"{self.experiment_name}: step {step}  loss {losses[-1]:.4f}")
                if valid_dataset and step % self.eval_interval == 0:
                    self._evaluate(engine, valid_dataset, collate_fn, size)
                if self.save_dir and self.save_interval and step % self.save_interval == 0:
                    engine.save_checkpoint(self.save_dir, keep=self.num_checkpoints)
        return losses

    def _forward(self, engine, dataset, rows, collate_fn):
        data = collate_fn([dataset[i] for i in rows])
        return data, engine.compute(self.forward_step, data, engine.module, None)

    def _evaluate(self, engine, dataset, collate_fn, size):
        engine.eval()
        losses, sums = [], [0.0] * len(self.metric_methods)
        for begin in range(0, len(dataset), size):
            rows = range(begin, min(begin + size, len(dataset)))
            data, outputs = self._forward(engine, dataset, rows, collate_fn)
            losses.append(outputs["loss"].item())
            for i, (_, metric) in enumerate(self.metric_methods):
                sums[i] += metric(outputs["logits"], data["labels"]) * len(rows)
        engine.train()
        if engine.rank == 0:
            line = f"validation loss {sum(losses) / len(losses):.4f}"
            for (name, _), total in zip(self.metric_methods, sums):
                line += f"  {name} {total / len(dataset):.4f}"
            print(f"{self.experiment_name}: {line}")
