"""What PyTorch's operators do to their arguments, as far as it matters who reads
which tensor."""

from __future__ import annotations

import re
from typing import Any

import torch

# Operators that read no element of their arguments, beside those that PyTorch
# has for shapes alone.
_READS_NOTHING = re.compile(
    r"prim|aten::((sym_)?(size|stride|numel|storage_offset)|is_\w+|detach_"
    r"|(empty|zeros|ones|full|rand|randn|randint)_like|new_\w+)$"
)


def reads_nothing(func: Any) -> bool:
    """Whether the operator only makes a view, or looks at shapes alone."""
    return bool(func.is_view) or _READS_NOTHING.match(func._schema.name) is not None


def storage_of(tensor: torch.Tensor) -> int:
    """A number that tensors with one storage share while it lives; 0 for those
    that have none."""
    return tensor.untyped_storage()._cdata if tensor.layout == torch.strided else 0
