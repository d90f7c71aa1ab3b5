"""The head-to-head of searches: ours and Helion's, each from an empty cache, all their incumbents re-timed together."""
