"""The operators' folders: a row for each."""

OPERATORS = [
    "activation",
    "adafactor",
    "adam",
    "add",
    "attention",
    "bias_gradient",
    "cast",
    "copy_rows",
    "dropout",
    "embedding",
    "exact_sum",
    "gradient_sum",
    "head_loss",
    "lamb",
    "layer_norm",
    "lion",
    "matmul",
    "packed_adam",
    "position_loss",
    "rms_norm",
    "rotary",
    "sgd",
]

def of_each_operator(target):
    """The labels of one target of every operator's folder.

    Args:
      target: its name; empty: the folder's own (the arguments)

    Returns:
      the labels
    """
    return ["//kernels/%s:%s" % (name, target or name) for name in OPERATORS]
