"""Every value of a model under Python ONNX Runtime, on disk by content digest.

The model is run piece by piece, each piece fed from the values recorded before it, so that memory stays bounded
whatever the model's size. Graph optimization is off: each node is computed by its own kernel, as the file says.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from onnxreduce.errors import BadInputError
from onnxreduce.graph.candidate import Candidate, cut
from onnxreduce.graph.index import GraphIndex
from onnxreduce.graph.tensors import Blob, StoredTensor
from onnxreduce.runtimes.base import RunResult, Status, request
from onnxreduce.runtimes.python_ort import PythonOrt, stored_output
from onnxreduce.runtimes.target import Target

RECORDER = Target("ort", provider="cpu", options={"level": "disabled"})
_PIECE_BYTES = 256 << 20
_FIRST_PIECE_NODES = 256


class Recording(Mapping[str, StoredTensor]):
    """Recorded tensors by value name, the model's own inputs included; values that are no tensors are absent.

    `seconds`: time spent in the runtime.
    """

    def __init__(self, feeds: Mapping[str, StoredTensor], folder: Path | None = None) -> None:
        self._values: dict[str, StoredTensor] = dict(feeds)
        self.folder = folder or Path(tempfile.mkdtemp(prefix="onnxreduce-recording-"))
        self._own = folder is None
        self.seconds = 0.0

    def __getitem__(self, name: str) -> StoredTensor:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def add(self, name: str, tensor: StoredTensor) -> None:
        """Keep a value; file content is moved into the recording's folder under its digest."""
        if tensor.blob.path is not None:
            place = self.folder / tensor.blob.digest
            if place.exists():
                tensor.blob.path.unlink(missing_ok=True)
            else:
                shutil.move(tensor.blob.path, place)
            blob = Blob(tensor.blob.digest, tensor.blob.length, path=place)
            tensor = StoredTensor(tensor.elem_type, tensor.shape, blob)
        self._values[name] = tensor

    def close(self) -> None:
        """Remove the files, where the recording made its own folder."""
        if self._own:
            shutil.rmtree(self.folder, ignore_errors=True)


def record(
    index: GraphIndex,
    feeds: Mapping[str, StoredTensor],
    *,
    timeout: float,
    folder: Path | None = None,
    runtime: PythonOrt | None = None,
) -> Recording:
    """Record every tensor of a model. `timeout` in seconds holds for each piece.

    Raises BadInputError naming the operator when the reference cannot run a node.
    """
    recording = Recording(feeds, folder)
    recorder = runtime or PythonOrt(RECORDER)
    try:
        start, size = 0, _FIRST_PIECE_NODES
        while start < len(index):
            piece = [at for at in index.closed(range(start, min(start + size, len(index)))) if at >= start]
            written = _record_piece(index, piece, recording, recorder, timeout)
            start = _next_unrecorded(index, piece, start + size)
            if written * 2 < _PIECE_BYTES:
                size *= 2
            elif written > _PIECE_BYTES:
                size = max(1, size // 2)
    except BaseException:
        recording.close()
        raise
    finally:
        if runtime is None:
            recorder.close()
    return recording


def _next_unrecorded(index: GraphIndex, piece: list[int], end: int) -> int:
    return min(max(end, piece[-1] + 1 if piece else end), len(index))


def _record_piece(
    index: GraphIndex, piece: list[int], recording: Recording, recorder: PythonOrt, timeout: float
) -> int:
    outputs = [value for at in piece for value in index.writes[at] if index.promotable(value)]
    candidate = _exposed(index, piece, recording, outputs)
    folder = Path(tempfile.mkdtemp(dir=recording.folder))
    try:
        result, described = recorder.run_into(request(candidate), folder, timeout=timeout, load=False)
        recording.seconds += result.seconds
        if result.status is not Status.OK:
            _refuse(index, piece, result, recording, recorder, timeout)
            return 0
        for output in described:
            if "elem_type" in output:
                recording.add(output["name"], stored_output(output))
        return sum(output.get("length", 0) for output in described)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _exposed(index: GraphIndex, piece: list[int], recording: Recording, outputs: list[str]) -> Candidate:
    """The piece with all its values as outputs, whose types ONNX Runtime finds itself."""
    inner = cut(index, piece, recording, outputs=[])
    for value in outputs:
        known = index.graph_outputs.get(value)
        if known is not None:
            inner.model.proto.graph.output.append(known)
        else:
            inner.model.proto.graph.output.add().name = value
    return Candidate(inner.model, inner.feeds, outputs, inner.nodes)


def _refuse(
    index: GraphIndex, piece: list[int], result: RunResult, recording: Recording, recorder: PythonOrt, timeout: float
) -> None:
    """Record half by half down to the node that cannot run, and say which it is."""
    if len(piece) > 1 and index.together(piece[0]) != tuple(piece):
        middle = len(piece) // 2
        first = [at for at in index.closed(piece[:middle]) if at in set(piece)]
        second = [at for at in piece if at not in set(first)]
        _record_piece(index, first, recording, recorder, timeout)
        if second:
            _record_piece(index, second, recording, recorder, timeout)
        return
    node = index.nodes[piece[0]]
    reason = " ".join(result.message.split())[:300]
    raise BadInputError(
        f"the reference cannot run node {node.name!r} ({node.domain + '.' if node.domain else ''}{node.op_type}): "
        f"{result.status.value}: {reason}"
    )
