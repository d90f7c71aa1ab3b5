"""The head-to-head of searches: ours and Helion's, each from a cold cache, all their incumbents re-timed together."""
