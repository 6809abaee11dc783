"""The reduced model with one thing changed: what makes it right, and what does not."""

from onnxreduce.explain.neighbours.search import Near, find_neighbours, nearest
from onnxreduce.explain.neighbours.table import CHANGES

__all__ = ["CHANGES", "Near", "find_neighbours", "nearest"]
