"""Scores of tokens, tried on the reference model in NumPy before any of them becomes a policy."""
