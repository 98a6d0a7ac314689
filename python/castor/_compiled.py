"""Code that torch.compile made.

Its backends `eager` and `aot_eager` run a graph by PyTorch's operators, which
the engine sees as ever. Inductor's code reads tensors by their addresses
between operators, so that all parameters of a graph must be there before it
begins: each of its graphs, forward and backward, is one use of the parameters
among its inputs.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import nn

from castor._library import shim


@functools.cache
def _let_higher_order_operators_pass() -> None:
    """They dispatch in Python, which knows no fallback for the key at which the
    engine listens; the operators that they run are heard."""
    operators: Any = torch._ops
    key = torch._C._parse_dispatch_key("TESTING_ONLY_GenericMode")
    operators._HIGHER_ORDER_OP_DEFAULT_FALLTHROUGH_DISPATCH_KEYS.append(key)
    for operator in operators._higher_order_ops.values():
        operator.fallthrough(key)


@functools.cache
def _keep_out_of_graphs() -> None:
    """A compiled model's call goes by the engine before it comes to the graph:
    torch.compile would look for something to compile there, too."""
    torch._dynamo.trace_rules.add("castor")


@functools.cache
def _announce_graphs() -> None:
    """From now on inductor's graphs say what they read before they run."""
    from torch._inductor import output_code

    graphs: Any = output_code.CompiledFxGraph
    run: Callable[[Any, Any], Any] = graphs.__call__

    def announce_and_run(graph: Any, inputs: Any) -> Any:
        if shim.is_entered():
            _refuse_graphs_of_cuda(graph)
        # The list goes at once: the graph frees its inputs as it is done with
        # them.
        torch.ops.castor.compiled_graph(
            [each for each in inputs if isinstance(each, torch.Tensor)]
        )
        return run(graph, inputs)

    graphs.__call__ = announce_and_run


def _refuse_graphs_of_cuda(graph: Any) -> None:
    """Refuses what inductor wants to record as a graph of CUDA: it would keep the
    addresses of parameters, which move."""
    asked: Any = getattr(graph, "cudagraph_info", None)  # None on the CPU, too
    if asked is not None and not asked.cudagraph_fail_reasons:
        raise RuntimeError(
            "castor: torch.compile records graphs of CUDA here, in which parameters "
            'would have to stay where they are; leave out mode="reduce-overhead" '
            'and triton.cudagraphs, and take mode="max-autotune-no-cudagraphs" for '
            '"max-autotune"'
        )


def _compiling_begins(*_: Any) -> None:
    shim.count_for_entered(False)


def _compiling_ends(*_: Any) -> None:
    shim.count_for_entered(True)


def watch_compiled_code() -> None:
    """Call it before an engine computes. Whatever was compiled works then, and
    what compiling itself takes is the host's."""
    _let_higher_order_operators_pass()
    if "torch._dynamo" not in sys.modules:
        return
    _keep_out_of_graphs()
    _announce_graphs()
    callbacks = torch._dynamo.callback.callback_handler
    if _compiling_begins not in callbacks.start_callbacks:  # or reset() was called
        callbacks.register_start_callback(_compiling_begins)
        callbacks.register_end_callback(_compiling_ends)


def is_compiled(module: nn.Module) -> bool:
    """Whether it is what torch.compile(module) or module.compile() made."""
    compiled = getattr(module, "_compiled_call_impl", None)
    return (
        getattr(compiled, "castor_before", compiled) is not None
        or type(module).__name__ == "OptimizedModule"
    )


def without_compiling(model: nn.Module) -> AbstractContextManager[Any]:
    """Inside, compiled modules of the model run as if they were not."""
    if not any(is_compiled(module) for module in model.modules()):
        return contextlib.nullcontext()
    eager: AbstractContextManager[Any] = torch.compiler.set_stance("force_eager")
    return eager


def plain_name(name: str) -> str:
    """The name that a parameter has where no module is compiled."""
    return name.replace("_orig_mod.", "")
