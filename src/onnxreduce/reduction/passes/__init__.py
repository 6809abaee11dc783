"""Ways to make a candidate smaller than by deleting nodes."""
