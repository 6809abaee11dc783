"""Puts this folder on the import path, so that tests of every room share `faults` and `children`."""
