"""Serve on loopback. On a GPU the model has Llama 3 8B's layer sizes; on a CPU it is tiny."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from tileflow import runtime

from .engine import Engine
from .model import KERNELS, PLAIN, TINY, Decoder, Sizes
from .server import Server, show_engine


def main() -> None:
    """Serve a random model over HTTP as the command line says, until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bundle", type=Path, help="a bundle or a directory of tables to serve the kernels from")
    parser.add_argument("--plain", action="store_true", help="torch's own operations in place of kernels")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--pages", type=int, default=4096, help="of the cache, 16 tokens each")
    options = parser.parse_args()
    on_gpu = torch.cuda.is_available()
    if options.bundle is not None:
        runtime.load(options.bundle)
    model = Decoder(Sizes(), "cuda") if on_gpu else Decoder(TINY, "cpu", torch.float32)
    engine = Engine(model, PLAIN if options.plain else KERNELS, options.pages)
    show_engine(engine)
    server = Server(engine, options.port)
    server.start()
    print(f"{server.address}/generate and {server.address}/metrics", flush=True)
    try:
        server.wait()
    except KeyboardInterrupt:
        server.close()


if __name__ == "__main__":
    main()
