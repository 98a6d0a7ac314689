"""What castor.plan says of a T5, which castor train has not: of PyTorch's operators, on
fake tensors, without the memory for the model."""

import castor
import torch
import transformers

SHAPES = {
    # T5's 11B: Raffel et al., "Exploring the limits of transfer learning", 2020.
    "t5-11b": dict(d_model=1024, d_kv=128, d_ff=65536, num_layers=24, num_heads=128),
}


def plan(row):
    """Keys of `castor plan --json`, without times: castor.plan foresees none."""
    size, length = row["micro_batch"], row["length"]

    def make():
        config = transformers.T5Config(
            vocab_size=32128, decoder_start_token_id=0, use_cache=False,
            **SHAPES[row["model"]],
        )
        model = transformers.T5ForConditionalGeneration(config)
        model.gradient_checkpointing_enable()
        return model

    ids = torch.zeros(size, length, dtype=torch.long)
    config = {
        "train_micro_batch_size_per_gpu": size,
        "bf16": {"enabled": True},
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
        "memory": {"device_memory": row["device_memory"], "host_memory": row["ram"]},
    }
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids}
    figures = castor.plan(make, config, batch).summary()
    return {
        **figures,
        "predicted_device_peak_bytes": figures.get("device_peak_bytes"),
        "predicted_host_peak_bytes": figures.get("host_peak_bytes"),
        "binds": None if figures["fits"] else "device_memory",
    }
