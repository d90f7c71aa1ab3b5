"""A comparison of searches: ours and Helion's, each from an empty cache, all their incumbents timed again together."""
