"""An engine's GPU: PyTorch's allocator there, and the stream that it computes on."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from castor._library import shim
from castor._refused import each_line

# Much of it has no annotations.
_cuda: Any = torch.cuda
# PyTorch keeps the allocator for as long as the process lives, and so do we.
_allocator: Any = None


def wants_gpu(config: str) -> bool:
    """Whether the configuration's device.type is "cuda"."""
    try:
        device = json.loads(shim.plain_config(config)).get("device")
    except RuntimeError:
        return False  # whoever reads it says why
    return isinstance(device, dict) and device.get("type") == "cuda"


def has_allocator() -> bool:
    """Whether Castor's allocator stands in the place of PyTorch's."""
    return _allocator is not None


def _refuse(what: str, do: str) -> None:
    raise ValueError(f'castor: device.type "cuda": {what}; {do}')


def take_allocator() -> None:
    """Puts Castor's allocator in the place of PyTorch's, once in a process.

    Raises:
        ValueError: PyTorch has no GPU, or has begun to use one.
    """
    global _allocator
    if _allocator is not None:
        return
    if not torch.cuda.is_available():
        built = torch.version.cuda is not None
        _refuse(
            "this PyTorch finds no GPU" if built else "this PyTorch has no CUDA",
            'leave it out, or give "host", to train on the CPU',
        )
    if _cuda.is_initialized():
        _refuse(
            "PyTorch uses CUDA already, with an allocator of its own",
            "call castor.initialize before anything in the process uses CUDA",
        )
    if torch.version.hip is not None:
        _refuse("this PyTorch is for ROCm", "use one for CUDA")
    allocator = _cuda.memory.CUDAPluggableAllocator(
        shim.__file__, "castor_cuda_alloc", "castor_cuda_free"
    )
    allocator.allocator().set_record_stream_fn(shim.use_on_address())
    _cuda.memory.change_current_allocator(allocator)
    _allocator = allocator


def _gpu_of_rank() -> int:
    """The GPU that this process has among the ranks of its machine, or the only
    one that it sees, as natively."""
    gpus = torch.cuda.device_count()
    try:
        local_rank = shim.local_rank()
    except ValueError as error:
        raise ValueError(each_line(error, "castor")) from None
    if local_rank < 0 and gpus > 1:
        _refuse(
            f"the launcher does not say which of this machine's {gpus} GPUs is this "
            "rank's",
            "show each rank its own, by CUDA_VISIBLE_DEVICES",
        )
    return max(local_rank, 0) % gpus


def make_workspaces(device: torch.device) -> None:
    """Has PyTorch make cuBLAS's workspaces (32 MiB each on Hopper) of this thread and
    of autograd's for the device, on the current stream. It makes one at the first
    product of a thread on a stream, and keeps it: within an engine's passes, in the
    engine's memory, which it would hold when that is closed."""
    with torch.enable_grad():
        x = torch.ones(16, 16, device=device, requires_grad=True)
        torch.autograd.backward(torch.nn.functional.linear(x, x, x[0]).sum())


def clear_workspaces() -> None:
    """Has PyTorch free those workspaces, of all threads and engines; it makes them
    again where they are needed."""
    torch._C._cuda_clearCublasWorkspaces()


class Gpu:
    """PyTorch's current GPU (where nothing has used CUDA yet, the rank's), and its
    current stream there, on which an engine's passes run, whatever stream is
    current when they are called.

    Raises:
        ValueError: see `take_allocator`.
    """

    def __init__(self) -> None:
        take_allocator()
        if not _cuda.is_initialized():
            torch.cuda.set_device(_gpu_of_rank())
        _cuda.init()
        self.index = torch.cuda.current_device()
        self.device = torch.device("cuda", self.index)
        self._stream = torch.cuda.current_stream(self.device)
        with self.current():
            make_workspaces(self.device)

    @property
    def place(self) -> tuple[int, int]:
        """What the core wants to know: the GPU's number, and the stream."""
        return self.index, int(self._stream.cuda_stream)

    @property
    def generator(self) -> torch.Generator:
        """PyTorch's generator of random numbers there."""
        return torch.cuda.default_generators[self.index]

    @contextlib.contextmanager
    def current(self) -> Iterator[None]:
        """Inside, the GPU and the stream are PyTorch's current ones. What was
        queued before comes before it, and what is queued later after it."""
        with torch.cuda.device(self.device):
            outside = torch.cuda.current_stream(self.device)
            if outside == self._stream:
                yield
                return
            self._stream.wait_stream(outside)
            try:
                with torch.cuda.stream(self._stream):
                    yield
            finally:
                outside.wait_stream(self._stream)


def move_buffers(model: nn.Module, device: torch.device) -> None:
    """Gives the model's buffers memory on `device`. Those that share memory
    share it there, too."""
    moved: dict[int, Any] = {}
    for buffer in model.buffers():
        if buffer.layout != torch.strided or buffer.device == device:
            continue
        storage: Any = buffer.untyped_storage()
        key = storage.data_ptr()
        if key not in moved:
            moved[key] = (
                storage.cpu()
                if device.type == "cpu"
                else storage.cuda(device.index, non_blocking=False)
            )
        there = torch.empty(0, dtype=buffer.dtype, device=device)
        buffer.data = there.set_(
            moved[key], buffer.storage_offset(), buffer.size(), buffer.stride()
        )
