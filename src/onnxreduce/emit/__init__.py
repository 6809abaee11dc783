"""What a reduction leaves behind: builder script, test data, page, folder."""

from onnxreduce.emit.folder import discard, remove_passing, run_script, write_passing, write_reduction
from onnxreduce.emit.neighbourhood import write_neighbourhood
from onnxreduce.emit.page import MAX_PAGE_BYTES, PAGE_NAME, page_bytes, repro_page
from onnxreduce.emit.report import remove_report, write_report
from onnxreduce.emit.script import builder_script
from onnxreduce.emit.together import finish
from onnxreduce.emit.variant import PASSING_DATA, PASSING_MODEL, Passing, PythonRun, extended

__all__ = [
    "MAX_PAGE_BYTES",
    "PAGE_NAME",
    "PASSING_DATA",
    "PASSING_MODEL",
    "Passing",
    "PythonRun",
    "builder_script",
    "discard",
    "extended",
    "finish",
    "page_bytes",
    "remove_passing",
    "remove_report",
    "repro_page",
    "run_script",
    "write_neighbourhood",
    "write_passing",
    "write_reduction",
    "write_report",
]
