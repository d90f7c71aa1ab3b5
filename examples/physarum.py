"""Physarum: agents that follow the trail they leave, and so grow networks like a slime mould's.

The model is Jones' (Characteristics of pattern formation and evolution in approximations of physarum transport
networks; Artificial Life 16, 2010). An agent samples the trail ahead, to its left and to its right, turns to the
strongest of the three, steps, and deposits. Between two steps the trail diffuses (a 3x3 mean) and decays. The world is
a torus. Two kernels, driven from Python; the trail is double-buffered, so that all agents sense the same one.

    python -m examples.physarum --agents 1048576 --size 1024 --steps 1000 --image physarum.png
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

import tileflow
import tileflow.language as tfl

SENSOR_ANGLE = math.radians(22.5)
SENSOR_DISTANCE = 9.0
TURN = math.radians(45.0)
STEP = 1.0
DEPOSIT = 1.0
DECAY = 0.9

State = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def sense(trail: torch.Tensor, x: torch.Tensor, y: torch.Tensor, angle: torch.Tensor) -> torch.Tensor:
    """The trail at ``SENSOR_DISTANCE`` ahead of each agent, by bilinear interpolation. Shapes (agents,)."""
    h, w = trail.shape
    x = x + SENSOR_DISTANCE * torch.cos(angle)
    y = y + SENSOR_DISTANCE * torch.sin(angle)
    left, top = torch.floor(x), torch.floor(y)
    right_share, bottom_share = x - left, y - top
    x0, y0 = left.int() % w, top.int() % h
    x1, y1 = (x0 + 1) % w, (y0 + 1) % h
    upper = trail[y0, x0] * (1 - right_share) + trail[y0, x1] * right_share
    lower = trail[y1, x0] * (1 - right_share) + trail[y1, x1] * right_share
    return upper * (1 - bottom_share) + lower * bottom_share


def turn(front: torch.Tensor, left: torch.Tensor, right: torch.Tensor, coin: torch.Tensor) -> torch.Tensor:
    """The angle to turn by: none where the front is strongest, either way where it is weakest, else to the stronger."""
    sideways = torch.where(left > right, TURN, -TURN)
    either = torch.where(coin < 0.5, TURN, -TURN)
    chosen = torch.where((front < left) & (front < right), either, sideways)
    return torch.where((front >= left) & (front >= right), 0.0, chosen)


def move_inputs(
    agents: int, size: int, dtype: torch.dtype = torch.float32, device: str = "cpu"
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, int]:
    """Return agents at random places with random headings, a random trail, a random deposit, and a seed."""
    x, y = (torch.rand(agents, dtype=dtype, device=device) * size for _ in range(2))
    heading = torch.rand(agents, dtype=dtype, device=device) * (2 * math.pi)
    return x, y, heading, torch.rand(size, size, device=device), torch.rand(size, size, device=device), 1


def move_reference(
    x: torch.Tensor, y: torch.Tensor, heading: torch.Tensor, trail: torch.Tensor, fresh: torch.Tensor, seed: int
) -> State:
    """Run the kernel eagerly on the whole population as one tile, which draws the same random numbers."""
    return move.run_eagerly(x, y, heading, trail, fresh, seed, config={"block:tile": max(x.size(0), 1)})  # type: ignore[no-any-return]


# an agent turns by which trail is stronger: one unit of rounding sends a few another way
@tileflow.kernel(inputs=move_inputs, reference=move_reference, max_mismatch_ratio=1e-2)
def move(
    x: torch.Tensor, y: torch.Tensor, heading: torch.Tensor, trail: torch.Tensor, fresh: torch.Tensor, seed: int
) -> State:
    """Every agent senses ``trail``, turns, steps, and deposits into ``fresh``; all but ``trail`` change in place."""
    h, w = trail.shape
    for tile in tfl.tile(x.size(0)):
        px, py, angle = x[tile], y[tile], heading[tile]
        front = sense(trail, px, py, angle)
        left = sense(trail, px, py, angle + SENSOR_ANGLE)
        right = sense(trail, px, py, angle - SENSOR_ANGLE)
        angle = angle + turn(front, left, right, tfl.rand([tile], seed))
        px = torch.remainder(px + STEP * torch.cos(angle), w)
        py = torch.remainder(py + STEP * torch.sin(angle), h)
        x[tile], y[tile], heading[tile] = px, py, angle
        tfl.atomic_add(fresh, [py.int() % h, px.int() % w], DEPOSIT)
    return x, y, heading, fresh


def diffuse_inputs(
    h: int, w: int, dtype: torch.dtype = torch.float32, device: str = "cpu"
) -> tuple[torch.Tensor, float]:
    """Return a random trail and the decay."""
    return torch.rand(h, w, dtype=dtype, device=device), DECAY


def diffuse_reference(trail: torch.Tensor, decay: float = DECAY) -> torch.Tensor:
    """Return the mean over each pixel and its eight neighbours, decayed."""
    total = torch.zeros_like(trail)
    for dy in (-1, 0, 1):
        for dx in (-1, 0, 1):
            total += torch.roll(trail, (dy, dx), (0, 1))
    return total * (decay / 9)


@tileflow.kernel(inputs=diffuse_inputs, reference=diffuse_reference)
def diffuse(trail: torch.Tensor, decay: float = DECAY) -> torch.Tensor:
    """The trail after one step of diffusion and decay."""
    h, w = trail.shape
    out = torch.empty_like(trail)
    for tile_y, tile_x in tfl.tile([h, w]):
        total = tfl.zeros([tile_y, tile_x])
        for dy in (-1, 0, 1):
            for dx in (-1, 0, 1):
                total += trail[(tile_y.index + (h + dy)) % h, (tile_x.index + (w + dx)) % w]
        out[tile_y, tile_x] = total * (decay / 9)
    return out


def step(state: State, seed: int) -> State:
    """Run one step of the simulation, from (x, y, heading, trail) to the next."""
    x, y, heading, trail = state
    return move(x, y, heading, trail, diffuse(trail, DECAY), seed)  # type: ignore[no-any-return]


def eager_step(state: State, seed: int) -> State:
    """Run the same step as plain torch operations on the whole population."""
    x, y, heading, trail = state
    h, w = trail.shape
    fresh = diffuse_reference(trail)
    senses = [sense(trail, x, y, heading + a) for a in (0.0, SENSOR_ANGLE, -SENSOR_ANGLE)]
    heading = heading + turn(*senses, torch.rand_like(x))
    x = torch.remainder(x + STEP * torch.cos(heading), w)
    y = torch.remainder(y + STEP * torch.sin(heading), h)
    deposit = torch.full_like(x, DEPOSIT)
    fresh.index_put_((y.int() % h, x.int() % w), deposit, accumulate=True)
    return x, y, heading, fresh


@dataclass(frozen=True, slots=True)
class Run:
    """The trail after the last step, and steps per second without the first tenth of them."""

    trail: torch.Tensor
    steps_per_s: float


def simulate(agents: int, size: int, steps: int, device: str, advance: Callable[[State, int], State] = step) -> Run:
    """Start all agents on a disc with random headings, and run the steps."""
    torch.manual_seed(0)
    radius = size * 0.35 * torch.sqrt(torch.rand(agents, device=device))
    place, heading = (torch.rand(agents, device=device) * (2 * math.pi) for _ in range(2))
    state = (
        size / 2 + radius * torch.cos(place),
        size / 2 + radius * torch.sin(place),
        heading,
        torch.zeros(size, size, device=device),
    )
    wait = torch.cuda.synchronize if device.startswith("cuda") else lambda: None
    warm_up = max(steps // 10, 1)
    for n in range(steps):
        if n == warm_up:
            wait()
            began = time.perf_counter()
        state = advance(state, n)
    wait()
    return Run(state[3], (steps - warm_up) / (time.perf_counter() - began) if steps > warm_up else math.nan)


def save(trail: torch.Tensor, path: str) -> None:
    """Write the trail as an image, brighter where it is stronger."""
    from matplotlib import image

    shade = torch.log1p(trail)
    image.imsave(path, (shade / torch.quantile(shade.flatten()[::7], 0.995)).clamp(0, 1).cpu().numpy(), cmap="magma")


def main() -> None:
    """Simulate as the command line says, and print the steps per second."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=int, default=1 << 20)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--image", help="write the last trail here")
    parser.add_argument("--compare", action="store_true", help="run the eager model too")
    options = parser.parse_args()
    run = simulate(options.agents, options.size, options.steps, options.device)
    print(f"{options.agents} agents on {options.size}^2: {run.steps_per_s:.1f} steps/s")
    if options.compare:
        eager = simulate(options.agents, options.size, max(options.steps // 10, 20), options.device, eager_step)
        ratio = run.steps_per_s / eager.steps_per_s
        print(f"eager torch: {eager.steps_per_s:.1f} steps/s; the kernels make {ratio:.1f} times as many")
    if options.image:
        save(run.trail, options.image)


if __name__ == "__main__":
    main()
