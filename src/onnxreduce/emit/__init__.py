"""What a reduction leaves behind: builder script, test data, page, folder."""

from onnxreduce.emit.folder import run_script, write_reduction
from onnxreduce.emit.neighbourhood import write_neighbourhood
from onnxreduce.emit.page import MAX_PAGE_BYTES, PAGE_NAME, page_bytes, repro_page
from onnxreduce.emit.report import write_report
from onnxreduce.emit.script import builder_script

__all__ = [
    "MAX_PAGE_BYTES",
    "PAGE_NAME",
    "builder_script",
    "page_bytes",
    "repro_page",
    "run_script",
    "write_neighbourhood",
    "write_reduction",
    "write_report",
]
