"""Judging candidates: comparison, signature, and the oracles themselves."""
