"""Search strategies over config spaces: ask and tell, without a clock, a GPU or a cluster."""

from .protocol import Result, Strategy
from .registry import STRATEGIES, make

__all__ = ["STRATEGIES", "Result", "Strategy", "make"]
