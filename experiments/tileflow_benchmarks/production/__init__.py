"""The requirements of production, measured and checked on a GPU: ``scripts/production OUT``."""
