"""What the package does on a GPU, as far as it can be seen without one."""

from __future__ import annotations

import contextlib
import unittest
from typing import Any
from unittest import mock

import castor
import torch
from castor import _engine, _gpu
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from small import Net, X, engine_of, one_step


class Products(TorchDispatchMode):
    """Counts products of matrices."""

    def __init__(self) -> None:
        super().__init__()
        self.forward = self.backward = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        product = func.overloadpacket.__name__ in ("mm", "addmm")
        if product and torch._C._current_graph_task_id() == -1:
            self.forward += 1
        elif product:
            self.backward += 1
        return func(*args, **(kwargs or {}))


class Workspaces(unittest.TestCase):
    def test_of_both_threads_are_made(self) -> None:
        # As where the model has left gradients off.
        with torch.no_grad(), Products() as products:
            _gpu.make_workspaces(torch.device("cpu"))
        self.assertGreater(products.forward, 0)
        self.assertGreater(products.backward, 0)

    def test_are_made_before_the_engine_has_its_memory(self) -> None:
        came = []
        stream = mock.Mock(cuda_stream=0)
        cuda = mock.Mock(wraps=torch.cuda)
        for name, value in {
            "init": None,
            "is_initialized": True,
            "current_device": 0,
            "current_stream": stream,
            "device": contextlib.nullcontext(),
        }.items():
            setattr(cuda, name, mock.Mock(return_value=value))
        with (
            mock.patch.object(_gpu, "_cuda", cuda),
            mock.patch.object(_gpu.torch, "cuda", cuda),
            mock.patch.object(_gpu, "take_allocator", lambda: came.append("allocator")),
            mock.patch.object(_gpu, "make_workspaces", came.append),
        ):
            gpu = _gpu.Gpu()
        self.assertEqual(came, ["allocator", torch.device("cuda", 0)])
        self.assertEqual(gpu.place, (0, 0))

    def test_are_cleared_before_the_engine_gives_its_memory_back(self) -> None:
        engine = engine_of(Net())
        one_step(engine, X)
        closed_then = []
        engine._managed.gpu = mock.Mock()
        with mock.patch.object(
            _engine, "clear_workspaces", lambda: closed_then.append(engine._run.closed)
        ):
            engine.close()
        self.assertEqual(closed_then, [False])
        self.assertTrue(engine._run.closed)


class Masked(nn.Module):
    """A model with a buffer that an operator reads beside a parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.register_buffer("mask", torch.ones(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.linear(x) * self.mask).sum()


class Foreseen(unittest.TestCase):
    def test_buffers_and_inputs_may_lie_on_a_gpu(self) -> None:
        here = castor.plan(Masked(), {}, torch.ones(4, 8))
        model = Masked()
        with FakeTensorMode(allow_non_fake_inputs=True):
            model._buffers["mask"] = torch.ones(8, device="cuda")
            there = castor.plan(model, {}, torch.ones(4, 8, device="cuda"))
        self.assertEqual(there.note, here.note)
        self.assertEqual(there.traced_on, here.traced_on)
        self.assertEqual(there.summary(), here.summary())


if __name__ == "__main__":
    unittest.main()
