"""What a builder script can do beside building the failing model: the nearest model that is right, and a run of either.

It is added behind the failing part, which stays as it was; without arguments the script does what it did before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import onnx

from onnxreduce.emit.edits import edits
from onnxreduce.emit.layout import render
from onnxreduce.emit.literals import quoted
from onnxreduce.emit.script import Script, docstring_line, input_value, main_part, stored_input
from onnxreduce.graph.input_files import feed_names
from onnxreduce.graph.tensors import Blob, StoredTensor

PASSING_MODEL = "passing.onnx"
PASSING_DATA = "passing_data_set_0"
FAILING_DATA = "test_data_set_0"

_MAIN = 'if __name__ == "__main__":\n'
_MARK = "# Beside the failing model: "
_IMPORTS = {
    "numpy_helper": "from onnx import numpy_helper",
    "TP": "from onnx import TensorProto as TP",
    "tensor_info": "from onnx.helper import make_tensor_value_info as tensor_info",
}
_FIND = {"Path": "from pathlib import Path", "HERE": "HERE = Path(__file__).resolve().parent"}
_VARIANT = """    parser.add_argument("--variant", choices=["failing", "passing"], default="failing")
"""
_RUN_OPTION = """    parser.add_argument("--run", action="store_true", help="run the model in onnxruntime, and compare")
"""
_ARGUMENTS = """    import argparse

    parser = argparse.ArgumentParser()
{options}    asked = parser.parse_args()
    made, values = {made}
"""
_RUN = '''def run(made, values{data}):
    """Run the model in onnxruntime ({version} is wrong) at level {level},
    and print by how much its outputs differ from {right_words}.
    """
    import onnxruntime as ort

    def outputs(level):
        options = ort.SessionOptions()
        options.graph_optimization_level = level
        session = ort.InferenceSession(made.SerializeToString(), options, providers=[{provider}]{more})
        return session.run(None, values)

    levels = ort.GraphOptimizationLevel
    right = {right}
    try:
        found = outputs(levels.{suspect})
    except Exception as error:
        return print(f"onnxruntime {{ort.__version__}} fails: {{error}}")
    for value, one, other in zip(made.graph.output, right, found):
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            print(f"{{value.name}}: {{other.dtype}} {{other.shape}}, expected {{one.dtype}} {{one.shape}}")
        else:
            far = np.max(np.abs(one.astype(float) - other.astype(float)), initial=0)
            print(f"{{value.name}}: {{np.sum(one != other)}} of {{one.size}} elements differ, by {{far:.9g}} at most")
'''


@dataclass(frozen=True)
class Passing:
    """The nearest model that is right, with its inputs. `words`: what was changed, as a sentence without its dot."""

    words: str
    model: onnx.ModelProto
    inputs: Mapping[str, StoredTensor]
    external: Mapping[str, Blob] = field(default_factory=dict)


@dataclass(frozen=True)
class PythonRun:
    """How Python's onnxruntime shows the fault.

    `level` and `reference_level` are names of `GraphOptimizationLevel`; without the latter the expected outputs of the
    test data set are what is right. `version`: the one that was seen to be wrong.
    """

    version: str
    provider: str
    level: str
    reference_level: str | None = None
    disabled_optimizers: tuple[str, ...] = ()


def extended(
    text: str,
    model: onnx.ModelProto,
    inputs: Mapping[str, StoredTensor],
    passing: Passing | None,
    run: PythonRun | None,
    *,
    external: Mapping[str, Blob] | None = None,
) -> Script:
    """The builder script `text` of a model, with what it can do besides; what it could do besides before is replaced.

    The script's `data` are the inputs of the passing model that no short expression gives. Where the passing model is
    no short edit of the failing one, the script loads it from `passing.onnx`.
    """
    failing = _failing_part(text)
    data: dict[str, StoredTensor] = {}
    parts = []
    if passing is not None:
        parts.append(_passing(model, inputs, passing, external or {}, data))
    if run is not None:
        parts.append(_run(run))
    if not parts:
        return Script(failing + _MAIN + main_part(model, inputs, external or {}), data)
    offers = ["`--variant passing` builds the nearest one that is right"] * (passing is not None)
    offers += ["`--run` runs it in onnxruntime"] * (run is not None)
    body = "\n\n".join(part.strip("\n") for part in parts)
    head = "".join(f"{line}\n" for line in _needed(failing, body))
    made = 'passing() if asked.variant == "passing" else (model(), inputs())' if passing else "model(), inputs()"
    options = (_VARIANT if passing else "") + (_RUN_OPTION if run else "")
    main = _ARGUMENTS.format(options=options, made=made) + main_part(model, inputs, external or {}, bound=True)
    if run is not None:
        files = (
            f'"{PASSING_DATA}" if asked.variant == "passing" else "{FAILING_DATA}"' if passing else f'"{FAILING_DATA}"'
        )
        main += f"    if asked.run:\n        run(made, values{'' if run.reference_level else f', {files}'})\n"
    return Script(f"{failing}{_MARK}{', '.join(offers)}.\n{head}\n{body}\n\n{_MAIN}{main}", data)


def _failing_part(text: str) -> str:
    """Up to what was added, or else up to the end that saves the model."""
    head, inputs, rest = text.rpartition("\ndef inputs():")  # a title before it may hold any words
    for mark in (_MARK, _MAIN):
        rest = rest.partition(f"\n{mark}")[0]
    return f"{head}{inputs}{rest.rstrip(chr(10))}\n\n"


def _passing(
    model: onnx.ModelProto,
    inputs: Mapping[str, StoredTensor],
    passing: Passing,
    external: Mapping[str, Blob],
    data: dict[str, StoredTensor],
) -> str:
    known = {**external, **passing.external}
    lines = edits(model, passing.model, known)
    made = "model()" if lines is not None else f"onnx.load(HERE / {quoted(PASSING_MODEL)})"
    body = [f"made, values = {made}, inputs()", *(lines or ()), *_values(inputs, passing, data), "return made, values"]
    return f'def passing():\n    """{docstring_line(passing.words)}."""\n' + "\n".join(f"    {line}" for line in body)


def _values(inputs: Mapping[str, StoredTensor], passing: Passing, data: dict[str, StoredTensor]) -> Iterator[str]:
    for name in inputs:
        if name not in passing.inputs:
            yield f"del values[{quoted(name)}]"
    for position, name in enumerate(feed_names(passing.model, passing.inputs)):
        tensor, before = passing.inputs[name], inputs.get(name)
        if before is not None and _same(before, tensor):
            continue
        head = f"values[{quoted(name)}] = "
        expression = input_value(tensor)
        if expression is None:
            file = f"{PASSING_DATA}/input_{position}.pb"
            data[file] = tensor
            yield head + stored_input(tensor, file)
        else:
            yield head + render(expression, 4, 4 + len(head))


def _same(left: StoredTensor, right: StoredTensor) -> bool:
    return (left.elem_type, left.shape, left.blob.digest) == (right.elem_type, right.shape, right.blob.digest)


def _run(run: PythonRun) -> str:
    if run.reference_level is not None:
        right, words = f"outputs(levels.{run.reference_level})", f"those at {run.reference_level}"
    else:
        right = 'onnx.load_tensor(HERE / data / f"output_{at}.pb") for at in range(len(made.graph.output))'
        right, words = f"[numpy_helper.to_array(each) for each in ({right})]", "those stored in the test data set"
    more = f", disabled_optimizers={list(run.disabled_optimizers)!r}" if run.disabled_optimizers else ""
    return _RUN.format(
        data="" if run.reference_level else ", data",
        version=docstring_line(run.version),
        level=run.level,
        suspect=run.level,
        right=right,
        right_words=words,
        provider=quoted(run.provider),
        more=more,
    )


def _needed(failing: str, body: str) -> list[str]:
    """Lines that make the names known which the failing part has not imported."""
    imports = "\n".join(line for line in failing.splitlines() if re.match(r"(from|import) |HERE = ", line))
    used = body + (" Path" if "HERE" in body else "")
    found = [line for name, line in {**_IMPORTS, **_FIND}.items() if _names(name, used) and not _names(name, imports)]
    return [*found, ""] if found else []


def _names(name: str, text: str) -> bool:
    return re.search(rf"\b{name}\b", text) is not None
