"""What needs no measurement: configs whose binaries say that they cannot win."""

from __future__ import annotations

from tileflow.cost import StaticFacts

WASTEFUL = 1.0  # spilled registers may move as many bytes as the call itself must


def hopeless(facts: StaticFacts, best: float) -> str:
    """Why a built config is not worth measuring beside a best time of 2**``best`` us; empty where it may be.

    The bound knows which matrix instructions the binary has: a product without the target's asynchronous ones falls
    once anything faster than their rate was measured, as does a grid that leaves too many SMs idle.
    """
    if not facts.fits:
        return "no block fits a multiprocessor"
    if facts.spilled > WASTEFUL:
        return f"spilled registers move {facts.spilled:.1f} times the bytes that the call must"
    if best < 1024 and facts.least_us > 2.0**best:
        return f"no such binary can take less than {facts.least_us:.1f} us, and {2.0**best:.1f} us were measured"
    return ""
