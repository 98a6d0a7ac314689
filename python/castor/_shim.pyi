"""What _library.shim has: the extension module for the PyTorch that there is,
_shim_2_13 and the like (python/shim/module.cc). Its errors are RuntimeErrors
unless something else is said."""

from collections.abc import Sequence

from torch import Tensor

def load_core(path: str) -> None:
    """Loads libcastor_client.so; called once, before all else."""

def plain_config(text: str) -> str:
    """A configuration without its comments, as JSON, with Castor's keys where it is
    DeepSpeed's."""

def config_account(text: str) -> str:
    """What became of a configuration that is DeepSpeed's, as JSON: autos, defaults,
    notes (client/interface/castor_client.h)."""

def config_rates(text: str, first: int, count: int) -> list[float]:
    """The learning rates of a configuration's schedule, from step `first` on."""

def generator_seed(seed: int, step: int, micro_batch: int, call: int) -> int: ...
def is_managed(tensor: Tensor) -> bool: ...
def local_rank() -> int:
    """The number of this process among the machine's ranks, 0 if it was started
    alone; -1: its launcher does not say. ValueError: what launchers have set
    contradicts itself."""

def use_on_address() -> int:
    """The address of castor_cuda_use_on (python/shim/gpu_memory.h)."""

def foresee(
    config: str,
    parameters: Sequence[tuple[str, list[int], bool, float]],
    uses: str,
    world_size: int,
) -> str:
    """What a step takes, as JSON: `parameters` are names, shapes, whether they
    are trained and weight decays (negative: the configuration's), `uses` a micro
    batch's as JSON. ValueError: the configuration is wrong."""

def count_for_entered(counts: bool) -> None:
    """Whether this thread's allocations count as the device's of the run that is
    entered, if one is."""

def is_entered() -> bool:
    """Whether a run computes: it is in its forward or backward."""

def take_refusal_of_open() -> Refusal | None:
    """Why this thread's latest Run had no room, once."""

class Refusal:
    @property
    def message(self) -> str: ...
    @property
    def operator(self) -> str: ...
    @property
    def peak_bytes(self) -> int: ...
    @property
    def resident_bytes(self) -> int: ...
    @property
    def smallest_device_budget_bytes(self) -> int: ...
    @property
    def exact(self) -> bool: ...

class Checkpoint:
    @property
    def path(self) -> str: ...
    @property
    def text(self) -> str | None: ...
    @property
    def notes(self) -> str: ...
    @property
    def differences(self) -> str: ...

class Nursery:
    """Gives each larger tensor that is made while it is open its own pages."""

    def __init__(self) -> None: ...
    def open(self) -> None: ...
    def close(self) -> None: ...
    @property
    def live_bytes(self) -> int: ...
    @property
    def peak_bytes(self) -> int: ...

def put_away(tensor: Tensor, keep: bool, why: str) -> None:
    """Reading the tensor is an error from now on, which says why; unless `keep`,
    its memory is freed."""

def bring_back(tensor: Tensor) -> None:
    """What was put away can be read again; what was freed is to be written."""

class Meeting:
    """The ranks that this process was started with, while there is no run. All of
    them make the same calls, and wait for each other in each."""

    def __init__(self, port_is_stores: bool) -> None: ...
    @property
    def rank(self) -> int: ...
    @property
    def world_size(self) -> int: ...
    def broadcast(self, what: str, root: int, tensor: Tensor) -> None:
        """The bytes of the tensor's storage become that rank's. `what` is the same
        on all ranks."""

    def end(self, failure: str | None) -> None:
        """With a text the others' calls fail, and nobody is waited for."""

class Run:
    """A run of the core with a model's parameters, which are numbers from 0 in
    the order in which they were given; python/shim/session.h says more."""

    def __init__(
        self,
        config: str,
        parameters: Sequence[tuple[str, Tensor, float]],
        port_is_stores: bool,
        place: tuple[int, int] | None,
    ) -> None:
        """`parameters`: names, tensors and weight decays (negative: the
        configuration's). `port_is_stores`: MASTER_PORT is that of a store of
        PyTorch's, where the ranks cannot meet. `place`: the number of the GPU and
        its stream (cudaStream_t), if the device is one. See
        take_refusal_of_open."""

    def adopt(self, number: int, tensor: Tensor, root: int) -> None: ...
    def begin(self, training: bool) -> None: ...
    def enter_forward(self) -> None: ...
    def enter_backward(self) -> None: ...
    def announce(self, inputs: str, extents: list[int]) -> None: ...
    def leave(self) -> None: ...
    def end_backward(self) -> None: ...
    def step(self, learning_rate: float) -> None:
        """Negative: the configuration's schedule."""

    def expect_rate(self, learning_rate: float) -> None:
        """What `step` will be given in the next step, as far as is known."""

    def set_device_memory(self, size: str) -> None: ...
    def end_evaluation(self) -> None: ...
    def abort(self) -> None: ...
    def close(self) -> None: ...
    def values(self, number: int) -> Tensor:
        """A new fp32 tensor of the parameter's shape."""

    def set_values(self, number: int, values: Tensor) -> None:
        """Other values than it has, between steps; optimizer states stay. Rank 0's
        count."""

    def save_checkpoint(
        self, directory: str, text: str, keep: int, keep_aside: int, lock: bool
    ) -> Checkpoint: ...
    def find_checkpoint(self, path: str, changed: bool) -> Checkpoint: ...
    def load_checkpoint(self) -> None: ...
    def trace(self, path: str, title: str, steps: str) -> None: ...
    def end_trace(self) -> None: ...
    def take_again(self) -> bool: ...
    def take_not_finite(self) -> bool: ...
    def take_refusal(self) -> Refusal | None: ...
    def exchange(self, what: str, text: str) -> list[str]:
        """The texts of all ranks, which call it together, in their order."""

    def gradient_norm(self) -> float: ...
    def scheduled_rate(self, step: int) -> float: ...
    def summary(self) -> str:
        """JSON."""

    @property
    def claimed_bytes(self) -> int: ...
    @property
    def closed(self) -> bool: ...
    @property
    def dtype(self) -> str: ...
    @property
    def micro_batches(self) -> int: ...
    @property
    def rank(self) -> int: ...
    @property
    def world_size(self) -> int: ...
    @property
    def seed(self) -> int: ...
    @property
    def steps(self) -> int: ...
    @property
    def skipped_steps(self) -> int: ...
    @property
    def loss_scale(self) -> float:
        """What losses are multiplied by before their backward."""

    @property
    def learning_rate(self) -> float: ...
