"""The reduced model, unchanged, run in other ways: levels, bundles, versions, options, and other runtimes."""

from onnxreduce.explain.variants.releases import Releases, known_releases
from onnxreduce.explain.variants.run import Runner
from onnxreduce.explain.variants.ways import Way, ways

__all__ = ["Releases", "Runner", "Way", "known_releases", "ways"]
