"""onnxreduce: cut a faulty ONNX model down to the few nodes that still show the fault."""

from onnxreduce.api import Check, check, reduce
from onnxreduce.errors import BadInputError, OnnxReduceError, SetupError
from onnxreduce.graph.prepare import InputOptions
from onnxreduce.oracle.build import Setup
from onnxreduce.oracle.choose import Settings, choose
from onnxreduce.oracle.spec import OracleSpec
from onnxreduce.oracle.verdict import Outcome, Verdict
from onnxreduce.reduction.driver import Shrinks
from onnxreduce.reduction.problem import Budget
from onnxreduce.reduction.result import DoesNotFailError, Reduction, Status
from onnxreduce.reduction.watcher import Watcher

__all__ = [
    "BadInputError",
    "Budget",
    "Check",
    "DoesNotFailError",
    "InputOptions",
    "OnnxReduceError",
    "OracleSpec",
    "Outcome",
    "Reduction",
    "Settings",
    "Setup",
    "SetupError",
    "Shrinks",
    "Status",
    "Verdict",
    "Watcher",
    "check",
    "choose",
    "reduce",
]

__version__ = "0.1.0"
