"""Every value of a model under Python ONNX Runtime, on disk by content digest.

The model is run piece by piece, each piece fed from the values recorded before it, so that memory stays bounded
whatever the model's size. Graph optimization is off: each node is computed by its own kernel, as the file says.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from onnxreduce import scratch
from onnxreduce.errors import BadInputError
from onnxreduce.graph.candidate import Candidate, part
from onnxreduce.graph.index import GraphIndex
from onnxreduce.graph.tensors import Blob, StoredTensor
from onnxreduce.graph.validity import node_text, one_line
from onnxreduce.graph.weights import external_location
from onnxreduce.runtimes.base import RunResult, Status, request
from onnxreduce.runtimes.python_ort import PythonOrt
from onnxreduce.runtimes.spool import stored_output
from onnxreduce.runtimes.target import Target

RECORDER = Target("ort", provider="cpu", options={"level": "disabled"})
RECORDED_BY = "onnxruntime (Python) CPUExecutionProvider, not optimized"
_PIECE_BYTES = 256 << 20
_FIRST_PIECE_NODES = 32
_GROWTH = 4


class Recording(Mapping[str, StoredTensor]):
    """Recorded tensors by value name, the model's own inputs included; values that are no tensors are absent.

    `seconds`: time spent in the runtime.
    """

    def __init__(self, feeds: Mapping[str, StoredTensor], folder: Path | None = None) -> None:
        self._values: dict[str, StoredTensor] = dict(feeds)
        self.folder = folder or scratch.make("recording")
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
            scratch.remove(self.folder)


def record(
    index: GraphIndex,
    feeds: Mapping[str, StoredTensor],
    *,
    timeout: float,
    folder: Path | None = None,
    runtime: PythonOrt | None = None,
) -> Recording:
    """Record every tensor of a model. `timeout` in seconds holds for each piece.

    Values that turn out to be no tensors are told to the index, which then holds their nodes together. Raises
    BadInputError naming node and operator when the reference cannot run a node.
    """
    recording = Recording(feeds, folder)
    recorder = runtime or PythonOrt(RECORDER)
    try:
        _Recorder(index, recording, recorder, timeout).record_all()
    except BaseException:
        recording.close()
        raise
    finally:
        if runtime is None:
            recorder.close()
    return recording


class _Recorder:
    def __init__(self, index: GraphIndex, recording: Recording, runtime: PythonOrt, timeout: float) -> None:
        self.index = index
        self.recording = recording
        self.runtime = runtime
        self.timeout = timeout

    def record_all(self) -> None:
        start, size = 0, _FIRST_PIECE_NODES
        while start < len(self.index):
            end = min(start + size, len(self.index))
            written = self.record(start, end)
            fitting = _PIECE_BYTES * (end - start) // max(written, 1)
            start, size = end, max(1, min(size * _GROWTH, fitting))
        for value in self.index.graph_outputs:
            if value in self.index.initializers and value not in self.recording:
                self.recording.add(value, self._initializer(value))

    def record(self, start: int, end: int) -> int:
        """Record the nodes from `start` to `end`, half by half where they do not run at once; returns bytes written."""
        folder = Path(tempfile.mkdtemp(dir=self.recording.folder))
        try:
            asked = request(self._exposed(start, end))
            result, described = self.runtime.run_into(asked, folder, timeout=self.timeout, load=False)
            if result.status is Status.DEAD and end - start == 1:  # by this node, or by something else on the machine?
                result, described = self.runtime.run_into(asked, folder, timeout=self.timeout, load=False)
            self.recording.seconds += result.seconds
            if result.status is Status.OK:
                for output in described:
                    if "elem_type" in output:
                        self.recording.add(output["name"], stored_output(output))
                self.index.hold(output["name"] for output in described if "elem_type" not in output)
                return sum(output.get("length", 0) for output in described)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if end - start == 1 or result.status is Status.HANG:  # a hang is not sought in halves: each would cost as much
            raise self._refusal(start, end, result, folder)
        middle = (start + end) // 2
        return self.record(start, middle) + self.record(middle, end)

    def _exposed(self, start: int, end: int) -> Candidate:
        """The nodes with all their values as outputs, whose types ONNX Runtime finds itself.

        Earlier nodes whose values could not be recorded (sequences and the like) run again.
        """
        index = self.index
        kept = [at for at in index.closed(range(start, end)) if at < end]
        values = [value for at in range(start, end) for value in index.writes[at]]
        outputs = [value for value in values if index.promotable(value)] or values
        inner = part(index, kept, self.recording)
        for value in outputs:
            inner.model.proto.graph.output.add().name = value
        return replace(inner, outputs=outputs)

    def _initializer(self, value: str) -> StoredTensor:
        tensor = self.index.initializers[value]
        location = external_location(tensor)
        if location is None:
            return StoredTensor.from_proto(tensor)
        return StoredTensor(tensor.data_type, tuple(tensor.dims), self.index.model.external[location])

    def _refusal(self, start: int, end: int, result: RunResult, folder: Path) -> BadInputError:
        what = node_text(self.index.nodes[start], start)
        if end - start > 1:
            what = f"nodes from {what} to {node_text(self.index.nodes[end - 1], end - 1)}"
        reason = one_line(result.message.replace(str(folder / "model.onnx"), "the model"))
        if result.status is Status.HANG:
            reason = f"no answer in {self.timeout:g} s"
        return BadInputError(f"the reference cannot run {what}: {result.status.value}: {reason}")
