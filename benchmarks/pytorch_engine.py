"""Step times of castor's engine beside plain PyTorch, on the CPU.

    .venv/bin/python benchmarks/pytorch_engine.py [--rounds 3] [--steps 6] ...

A GPT-2 of 124 million parameters with random weights, in fp32, in three ways
that take turns, each in a process of its own: plain PyTorch with its fused AdamW;
the engine without a budget; the engine with a share of the device bytes that it
takes without one, over an emulated bus. Prints each way's median step and its
ratio to plain PyTorch's, round by round, and the medians over the rounds.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6, help="timed, of a round")
    parser.add_argument("--warm-up", type=int, default=4)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--share", type=float, default=0.35, help="of the peak")
    parser.add_argument("--bus", type=float, default=8, help="GB/s each way")
    parser.add_argument("--way", help="internal: what this process runs")
    parser.add_argument("--budget", type=int, help="internal")
    return parser.parse_args()


def run(arguments):
    """Times the steps of one way. Returns seconds and the engine's summary."""
    import torch
    import transformers

    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    config = transformers.GPT2Config(
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False
    )
    model = transformers.GPT2LMHeadModel(config).train()
    ids = torch.randint(0, config.vocab_size, (arguments.batch, arguments.length))
    batch = {"input_ids": ids, "labels": ids}
    settings = {"lr": 1e-4, "weight_decay": 0.01}
    if arguments.way == "plain":
        optimizer = torch.optim.AdamW(model.parameters(), fused=True, **settings)

        def step():
            model(**batch).loss.backward()
            optimizer.step()
            optimizer.zero_grad()

        summary = dict
    else:
        import castor

        run_config = {
            "optimizer": {"type": "AdamW", "params": settings},
            "device": {"threads": arguments.threads},
        }
        if arguments.budget:
            run_config["device"]["bus_gbps"] = arguments.bus
            run_config["memory"] = {"device_memory": arguments.budget}
        engine = castor.initialize(model, run_config)

        def step():
            engine.train_batch([batch])

        summary = engine.summary
    seconds = []
    for i in range(arguments.warm_up + arguments.steps):
        began = time.perf_counter()
        step()
        if i >= arguments.warm_up:
            seconds.append(time.perf_counter() - began)
    return {"seconds": statistics.median(seconds), "summary": summary()}


def run_elsewhere(way, budget=None):
    command = [sys.executable, __file__, *sys.argv[1:], "--way", way]
    if budget:
        command += ["--budget", str(budget)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def main():
    arguments = parse_arguments()
    if arguments.way:
        print(json.dumps(run(arguments)))
        return
    ratios = {"engine": [], "budget": []}
    budget = None
    for i in range(arguments.rounds):
        plain = run_elsewhere("plain")["seconds"]
        free = run_elsewhere("engine")
        if budget is None:
            peak = free["summary"]["device_peak_bytes"]
            budget = int(arguments.share * peak)
            print(f"peak {peak:,} bytes, budget {budget:,}")
        tight = run_elsewhere("budget", budget)
        ratios["engine"].append(free["seconds"] / plain)
        ratios["budget"].append(tight["seconds"] / plain)
        print(
            f"round {i + 1}: plain {plain:.3f} s, engine {free['seconds']:.3f} s "
            f"({ratios['engine'][-1]:.3f}), with the budget "
            f"{tight['seconds']:.3f} s ({ratios['budget'][-1]:.3f}), peak "
            f"{tight['summary']['device_peak_bytes']:,}",
            flush=True,
        )
    for way, values in ratios.items():
        print(f"{way}: median ratio {statistics.median(values):.3f}")


if __name__ == "__main__":
    main()
