"""What production promises, measured and proved on a GPU: ``scripts/production OUT``."""
