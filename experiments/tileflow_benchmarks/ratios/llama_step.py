"""A training step of two layers of Llama 3 8B with its vocabulary: time and peak memory beside torch's and Liger's.

    python -m tileflow_benchmarks.ratios.llama_step --out FILE [--only WAYS] [--batch N] [--tables PATH]    on a GPU
    python -m tileflow_benchmarks.ratios.llama_step --out FILE --dry-run                                   without one

The model is the transformers library's, from its config, with the same random weights for all. A step is forward and
backward: an optimizer's is the same for all. Each way is a process of its own, since Liger changes the library's
modules, and in a new order each round; memory is what a process held at most, the model and its gradients too. A way
whose loss or gradients are not eager's, or that fails, is told and not compared.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch

WAYS = ("eager", "compile", "liger", "liger, compile", "tileflow", "tileflow, compile")
BASELINE, PEER = "eager", "liger"
MOST_DEVIATION = {"loss": 0.01, "grad_norm": 0.05}
CHILD_S = 280.0


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of the model and the step; the defaults are Llama 3 8B's but for the layers."""

    layers: int = 2
    hidden: int = 4096
    inner: int = 14336
    heads: int = 32
    kv_heads: int = 8
    vocabulary: int = 128256
    tokens: int = 4096
    warm_up: int = 5
    steps: int = 10


TINY = Sizes(layers=2, hidden=32, inner=48, heads=4, kv_heads=2, vocabulary=61, tokens=9, warm_up=1, steps=1)

Found = dict[str, Any]


def llama(sizes: Sizes, device: str, dtype: torch.dtype) -> Any:
    """The model for training, with weights of a seed."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=sizes.vocabulary,
        hidden_size=sizes.hidden,
        intermediate_size=sizes.inner,
        num_hidden_layers=sizes.layers,
        num_attention_heads=sizes.heads,
        num_key_value_heads=sizes.kv_heads,
        max_position_embeddings=max(sizes.tokens, 64),
        rope_parameters={"rope_type": "default", "rope_theta": 500_000.0},
        rms_norm_eps=1e-5,
        use_cache=False,
        attn_implementation="sdpa",
    )
    torch.manual_seed(0)
    with torch.device(device):
        return LlamaForCausalLM(config).to(dtype).train()


def prepared(way: str, model: Any, is_dry: bool) -> Any:
    """The model as ``way`` runs it. Raises ImportError where Liger is not installed."""
    if way.startswith("liger"):
        from liger_kernel.transformers import apply_liger_kernel_to_llama

        apply_liger_kernel_to_llama(model=model)
    if way.startswith("tileflow"):
        from tileflow.integrations.transformers import apply

        print(apply(model), file=sys.stderr)
    if way.endswith("compile"):
        return torch.compile(model, backend="aot_eager" if is_dry else "inductor")
    return model


def step(model: Any, ids: torch.Tensor) -> torch.Tensor:
    """The loss, with the gradients of all parameters new."""
    model.zero_grad(set_to_none=True)
    loss: torch.Tensor = model(input_ids=ids, labels=ids).loss
    torch.autograd.backward(loss)
    return loss.detach()


def run_way(way: str, sizes: Sizes, batch: int, is_dry: bool) -> Found:
    """One way in this process."""
    device, dtype = ("cpu", torch.float32) if is_dry else ("cuda", torch.bfloat16)
    if is_dry and way.startswith("liger"):
        raise RuntimeError("Liger's kernels need a GPU")
    own = llama(sizes, device, dtype)
    model = prepared(way, own, is_dry)
    ids = torch.randint(sizes.vocabulary, (batch, sizes.tokens), generator=torch.Generator().manual_seed(1)).to(device)
    begin = time.perf_counter()
    loss = float(step(model, ids))
    norms = [p.grad.float().norm() for p in own.parameters() if p.grad is not None]
    found: Found = {"loss": loss, "grad_norm": float(torch.stack(norms).norm()), "grads": len(norms)}
    found["first_step_s"] = round(time.perf_counter() - begin, 2)
    if is_dry:  # times and memory of a CPU would say nothing
        return found
    for _ in range(sizes.warm_up):
        step(model, ids)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    times = [_timed_ms(lambda: step(model, ids)) for _ in range(sizes.steps)]
    found["ms"] = round(median(times), 3)
    found["peak_mib"] = torch.cuda.max_memory_allocated() >> 20
    return found


def _timed_ms(call: Callable[[], object]) -> float:
    torch.cuda.synchronize()
    begin = time.perf_counter()
    call()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) * 1000


def in_a_child(way: str, batch: int, tables: Path | None) -> Found:
    """One way in a process of its own. Raises RuntimeError with the end of what it said."""
    command = [sys.executable, "-m", "tileflow_benchmarks.ratios.llama_step", "--child", way, "--batch", str(batch)]
    command += [] if tables is None else ["--tables", str(tables)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=CHILD_S, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-1500:])
    found: Found = json.loads(done.stdout.splitlines()[-1])
    return found


def compared(rounds: Mapping[str, Sequence[Found]]) -> Found:
    """The medians of each way's rounds, how far its loss and gradients are off eager's, and what it is beside others:
    above 1 is faster, or smaller."""
    ways: Found = {}
    for way, found in rounds.items():
        if found:
            ways[way] = {name: median(f[name] for f in found) for name in found[0]}
    base: Found = ways.get(BASELINE, {})
    for result in ways.values() if base else ():
        off = {name: abs(result[name] / base[name] - 1) for name in MOST_DEVIATION}
        result["deviation"] = {name: round(value, 5) for name, value in off.items()}
        result["is_right"] = result["grads"] == base["grads"] and all(
            off[name] <= most for name, most in MOST_DEVIATION.items()
        )
    ratios: Found = {}
    for way, result in ways.items():
        for other in (BASELINE, "compile", PEER):
            if other in ways and other != way and "ms" in result and result.get("is_right"):
                ratios.setdefault(way, {})[other] = {
                    "time": round(ways[other]["ms"] / result["ms"], 3),
                    "memory": round(ways[other]["peak_mib"] / result["peak_mib"], 3),
                }
    return {"ways": ways, "ratios": ratios}


def measured(ways: Sequence[str], rounds: int, launch: Callable[[str], Found]) -> Found:
    """All ways, in a new order each round; one that fails is not tried again."""
    found: dict[str, list[Found]] = {way: [] for way in ways}
    failed: dict[str, str] = {}
    shuffled = random.Random(0)
    for _ in range(rounds):
        for way in shuffled.sample(list(ways), len(ways)):
            if way in failed:
                continue
            try:
                found[way].append(launch(way))
            except Exception as error:  # the other ways are worth having
                failed[way] = f"{type(error).__name__}: {error}"
                print(traceback.format_exc(), file=sys.stderr)
    return {**compared(found), "failed": failed}


def _dry(way: str, batch: int) -> Found:
    import tileflow

    torch.compiler.reset()
    with tileflow.interpret() if way.startswith("tileflow") else contextlib.nullcontext():
        return run_way(way, TINY, batch, True)


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 1 where a way failed for another reason than Liger's absence, or is not right."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="the file for the results, JSON")
    parser.add_argument("--only", default=";".join(WAYS), help="ways, by semicolons")
    parser.add_argument("--batch", type=int, default=2, help="sequences of 4096 tokens")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--tables", type=Path, help="a bundle or tables for tileflow's ways")
    parser.add_argument("--dry-run", action="store_true", help="tiny sizes on a CPU: losses and gradients only")
    parser.add_argument("--child", choices=WAYS, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.child is not None:
        if options.tables is not None:
            from tileflow import runtime

            runtime.load(options.tables)
        print(json.dumps(run_way(options.child, Sizes(), options.batch, False)))
        return 0
    if options.out is None:
        parser.error("--out FILE is needed")
    ways = [way for way in WAYS if way in options.only.split(";")]
    if options.dry_run:
        found = measured(ways, 1, lambda way: _dry(way, options.batch))
    else:
        found = measured(ways, options.rounds, lambda way: in_a_child(way, options.batch, options.tables))
    name = "none" if options.dry_run else torch.cuda.get_device_name()
    found |= {"device": name, "torch": torch.__version__, "batch": options.batch, "dry_run": options.dry_run}
    options.out.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))
    is_wrong = any(not result.get("is_right", True) for result in found["ways"].values())
    return int(is_wrong or any(not way.startswith("liger") for way in found["failed"]))


if __name__ == "__main__":
    sys.exit(main())
