"""Step times and memory of ways to train with PyTorch, beside each other, on the CPU.

    python benchmarks/pytorch_offload.py [--ways plain,castor,...] [--rounds N] ...

A model with random weights (--model: GPT-2 of 124 million parameters, or
SmolLM2-135M's shape) and AdamW, by

    plain         PyTorch alone with its fused AdamW
    castor        the engine without a budget
    castor-tight  the engine with a share of the device bytes that it takes
                  without one, over an emulated bus
    fsdp2         fully_shard of each block with CPUOffloadPolicy, fused AdamW
    zero3         DeepSpeed's ZeRO-3, parameters and optimizer on the host, its
                  accelerator for the CPU, its AdamW for the CPU
    zero3-torch   the same with PyTorch's fused AdamW
    gemini        Colossal-AI's Gemini, parameters and optimizer on the host; it
                  has bf16 alone, and its optimizer wants a GPU

all of one rank. Each step's batch is the
same for all of them; with --shortest every step has a length of its own, drawn
from there to --length. They take turns, each in a process of its own; a way that does
not run says why, and the others go on. On the CPU the device of all but castor
is the host itself, so that they offload without copying; the bus is
castor-tight's alone.

Of each way it prints, as medians over the rounds:

    step        seconds, the median of a round's timed steps
    ratio       to plain's in the same round: the median of the steps' ratios, each
                to plain's step of the same number
    work        seconds of processors for a step, of all the process's threads, which
                other programs on the machine disturb less; castor's include its
                copies and updates
    device      castor: the most that the device held, as its arena counts.
                plain: parameters, optimizer states, and what a step allocates.
                Others: what a step allocates beside what there is between steps,
                as PyTorch's profiler sees it; what of that would be on a GPU is
                not told apart
    between     bytes for each parameter that the process has more between steps
                than before it made the model
    most        the same at its highest since then

PYTORCH_OFFLOAD_PYTHON names another interpreter for the ways from fsdp2 on.
"""

import argparse
import gc
import json
import os
import random
import statistics
import subprocess
import sys
import time

GPT2 = {  # layers, width, heads, vocabulary
    "gpt2": (12, 768, 12, 50257),
    "tiny": (2, 64, 2, 512),
}
MODELS = (*GPT2, "smollm2")
OURS = ("plain", "castor", "castor-tight")
OTHERS = ("fsdp2", "zero3", "zero3-torch", "gemini")
MOST_SECONDS = 900  # of a way's round; operators are compiled in the first
SETTINGS = {"lr": 1e-4, "weight_decay": 0.01}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ways", default=",".join(OURS + OTHERS[:-1]))
    parser.add_argument("--model", choices=MODELS, default="gpt2")
    parser.add_argument("--dtype", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=5, help="timed, of a round")
    parser.add_argument("--warm-up", type=int, default=6)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--shortest", type=int, help="lengths vary from this on")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--share", type=float, default=0.35, help="of the peak")
    parser.add_argument("--bus", type=float, default=8, help="GB/s each way")
    parser.add_argument("--way", help="internal: what this process runs")
    parser.add_argument("--budget", type=int, help="internal")
    arguments = parser.parse_args()
    arguments.ways = arguments.ways.split(",")
    for way in arguments.ways:
        if way not in OURS + OTHERS:
            parser.error(f"--ways: {way} is none of {', '.join(OURS + OTHERS)}")
    if "castor-tight" in arguments.ways and "castor" not in arguments.ways:
        parser.error("--ways: castor-tight needs castor, whose peak it has a share of")
    return arguments


def status_bytes(field):
    with open("/proc/self/status", encoding="ascii") as file:
        for line in file:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    raise KeyError(field)


def allocated_in(step, batch):
    """The most that a step allocates beside what there was before it."""
    import torch

    with torch.profiler.profile(profile_memory=True) as profile:
        step(batch)
    changes = []
    for event in profile.profiler.kineto_results.events():
        if event.name() == "[memory]" and event.device_type().name == "CPU":
            changes.append((event.start_ns(), event.nbytes()))
    now = most = 0
    for _, change in sorted(changes, key=lambda pair: pair[0]):
        now += change
        most = max(most, now)
    return most


def alone():
    """What a process that torchrun started would have, for one rank."""
    os.environ.update(
        MASTER_ADDR="127.0.0.1", MASTER_PORT="29571", RANK="0", LOCAL_RANK="0",
        WORLD_SIZE="1", LOCAL_SIZE="1",
    )


# Each of these gives a function that does a step, and one that gives the bytes
# of the device between steps, or None where those of the profiler are all.


def plain(arguments, model):
    import torch

    if arguments.dtype == "bf16":
        model.bfloat16()  # states, too: the least that plain PyTorch does
    optimizer = torch.optim.AdamW(model.parameters(), fused=True, **SETTINGS)

    def step(batch):
        model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    def resident():
        states = [
            value
            for state in optimizer.state.values()
            for value in state.values()
            if isinstance(value, torch.Tensor)
        ]
        return sum(t.numel() * t.element_size() for t in [*model.parameters(), *states])

    return step, resident


def castor(arguments, model):
    import castor

    config = {
        "optimizer": {"type": "AdamW", "params": SETTINGS},
        "bf16": {"enabled": arguments.dtype == "bf16"},
        "device": {"threads": arguments.threads},
    }
    if arguments.budget:
        config["device"]["bus_gbps"] = arguments.bus
        config["memory"] = {"device_memory": arguments.budget}
    engine = castor.initialize(model, config)
    return lambda batch: engine.train_batch([batch]), engine


def fsdp2(arguments, model):
    import torch
    import torch.distributed
    from torch.distributed.fsdp import (
        CPUOffloadPolicy,
        MixedPrecisionPolicy,
        fully_shard,
    )

    alone()
    torch.distributed.init_process_group("gloo")
    policies = {
        "mesh": torch.distributed.init_device_mesh("cpu", (1,)),
        "offload_policy": CPUOffloadPolicy(pin_memory=False),
    }
    if arguments.dtype == "bf16":
        policies["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16)
    for block in model.transformer.h:
        fully_shard(block, **policies)
    fully_shard(model, **policies)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True, **SETTINGS)

    def step(batch):
        model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step, None


def zero3(arguments, model, own_adam=True):
    os.environ["DS_ACCELERATOR"] = "cpu"
    alone()
    import deepspeed
    import torch

    deepspeed.init_distributed("gloo")
    config = {
        "train_micro_batch_size_per_gpu": arguments.batch,
        "bf16": {"enabled": arguments.dtype == "bf16"},
        "zero_optimization": {
            "stage": 3,
            "offload_param": {"device": "cpu"},
            "offload_optimizer": {"device": "cpu"},
        },
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": own_adam,
        "steps_per_print": 1 << 30,
    }
    optimizer = None
    if own_adam:
        config["optimizer"] = {"type": "AdamW", "params": SETTINGS}
    else:
        optimizer = torch.optim.AdamW(model.parameters(), fused=True, **SETTINGS)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)

    def step(batch):
        engine.backward(engine(**batch).loss)
        engine.step()

    return step, None


def zero3_torch(arguments, model):
    return zero3(arguments, model, own_adam=False)


def gemini(arguments, model):
    alone()
    import colossalai
    from colossalai.booster import Booster
    from colossalai.booster.plugin import GeminiPlugin
    from colossalai.nn.optimizer import HybridAdam

    colossalai.launch_from_torch(backend="gloo")
    plugin = GeminiPlugin(
        placement_policy="static", shard_param_frac=1.0, offload_optim_frac=1.0,
        offload_param_frac=1.0,
        precision="bf16" if arguments.dtype == "bf16" else "fp32",
    )
    booster = Booster(plugin=plugin)
    optimizer = HybridAdam(model.parameters(), **SETTINGS)
    model, optimizer, *_ = booster.boost(model, optimizer)

    def step(batch):
        booster.backward(model(**batch).loss, optimizer)
        optimizer.step()
        optimizer.zero_grad()

    return step, None


def configuration(name):
    import transformers

    if name == "smollm2":
        return transformers.LlamaConfig(
            num_hidden_layers=30, hidden_size=576, intermediate_size=1536,
            num_attention_heads=9, num_key_value_heads=3, vocab_size=49152,
            tie_word_embeddings=True, use_cache=False,
        )
    layers, width, heads, vocabulary = GPT2[name]
    return transformers.GPT2Config(
        n_layer=layers, n_embd=width, n_head=heads, vocab_size=vocabulary,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False,
        bos_token_id=0, eos_token_id=1,
    )


def run(arguments):
    """Times the steps of one way, and says what they took."""
    import torch
    import transformers

    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    config = configuration(arguments.model)
    way = {
        "plain": plain, "castor": castor, "castor-tight": castor, "fsdp2": fsdp2,
        "zero3": zero3, "zero3-torch": zero3_torch, "gemini": gemini,
    }[arguments.way]
    before = status_bytes("VmRSS")
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")  # the most begins anew
    model = transformers.AutoModelForCausalLM.from_config(config).train()
    parameters = sum(p.numel() for p in model.parameters())
    step, more = way(arguments, model)
    draw = random.Random(1)
    seconds, work = [], []
    for i in range(arguments.warm_up + arguments.steps):
        length = arguments.length
        if arguments.shortest:
            length = draw.randint(arguments.shortest, length)
        ids = torch.randint(0, config.vocab_size, (arguments.batch, length))
        batch = {"input_ids": ids, "labels": ids}
        began = time.perf_counter(), time.process_time()
        step(batch)
        if i >= arguments.warm_up:
            seconds.append(time.perf_counter() - began[0])
            work.append(time.process_time() - began[1])
    gc.collect()
    between = status_bytes("VmRSS") - before
    most = status_bytes("VmHWM") - before
    if way is castor:
        device = more.summary()["device_peak_bytes"]
    else:
        device = allocated_in(step, batch) + (more() if more else 0)
    return {
        "step": statistics.median(seconds),
        "steps": seconds,
        "work": statistics.median(work),
        "device": device,
        "between": between / parameters,
        "most": most / parameters,
    }


def run_elsewhere(arguments, way, budget=None):
    """What `run` says in a process of its own; a text: why it says nothing."""
    python = sys.executable
    if way in OTHERS:
        python = os.environ.get("PYTORCH_OFFLOAD_PYTHON", python)
    command = [python, __file__, *sys.argv[1:], "--way", way]
    if budget:
        command += ["--budget", str(budget)]
    threads = {"OMP_NUM_THREADS": str(arguments.threads)}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=MOST_SECONDS,
            env={**os.environ, **threads},
        )
    except subprocess.TimeoutExpired:
        return f"took more than {MOST_SECONDS} s"
    for line in reversed(done.stdout.splitlines()):
        if line.startswith('{"step"'):
            return json.loads(line)
    # What goes wrong after the error is not why.
    told = done.stderr.split("Exception ignored in")[0]
    lines = told.strip().splitlines() or [f"exit status {done.returncode}"]
    said = [line for line in lines if "Error" in line]
    return (said or lines)[-1].strip()


def row_of(way, result, ratios):
    ratio = f"{statistics.median(ratios):.3f}" if ratios else ""
    return (
        f"{way:13}{result['step']:9.4f}{ratio:>8}{result['work']:9.4f}"
        f"{int(result['device']):>17,}{result['between']:9.1f}{result['most']:7.1f}"
    )


def main():
    arguments = parse_arguments()
    if arguments.way:
        print("\n" + json.dumps(run(arguments)), flush=True)
        os._exit(0)  # whatever a way leaves running
    taken = {way: [] for way in arguments.ways}
    ratios = {way: [] for way in arguments.ways}
    failures = {}
    for i in range(arguments.rounds):
        for way in arguments.ways:
            budget = None
            if way in failures:
                continue
            if way == "castor-tight":
                if not taken["castor"]:
                    continue
                budget = int(arguments.share * taken["castor"][0]["device"])
            result = run_elsewhere(arguments, way, budget)
            if isinstance(result, str):
                failures[way] = result
                print(f"{way}: {result}", flush=True)
                continue
            taken[way].append(result)
            if len(taken.get("plain", [])) > i:
                pairs = zip(result["steps"], taken["plain"][i]["steps"])
                ratios[way].append(statistics.median(a / b for a, b in pairs))
            print(f"round {i + 1}: {row_of(way, result, ratios[way][-1:])}", flush=True)
    print()
    print(
        f"{'way':13}{'step s':>9}{'ratio':>8}{'work s':>9}{'device':>17}{'between':>9}"
        f"{'most':>7}"
    )
    for way, results in taken.items():
        if not results:
            continue
        median = {
            key: statistics.median(result[key] for result in results)
            for key in results[0]
            if key != "steps"
        }
        print(row_of(way, median, ratios[way]))


if __name__ == "__main__":
    main()
