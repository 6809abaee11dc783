"""What a reduction leaves behind: builder script, test data, folder."""

from onnxreduce.emit.folder import run_script, write_reduction
from onnxreduce.emit.neighbourhood import write_neighbourhood
from onnxreduce.emit.script import builder_script

__all__ = ["builder_script", "run_script", "write_neighbourhood", "write_reduction"]
