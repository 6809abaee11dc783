"""Python ONNX Runtime in a real child process, which crashes, hangs and is killed without anything left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import faults
import numpy as np
import psutil
import pytest
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from onnxreduce.errors import BadInputError, SetupError
from onnxreduce.graph.candidate import whole
from onnxreduce.graph.model import load
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.runtimes import child, python_ort
from onnxreduce.runtimes.base import RunRequest, RunResult, Status, request
from onnxreduce.runtimes.python_ort import PythonOrt
from onnxreduce.runtimes.target import Target

posix = pytest.mark.skipif(os.name != "posix", reason="signals and process groups are those of POSIX")
node, info = helper.make_node, helper.make_tensor_value_info
FLOAT = TensorProto.FLOAT
ENOUGH = 60.0


@pytest.fixture(scope="module")
def ort() -> Iterator[PythonOrt]:
    runtime = PythonOrt(Target.parse("ort/cpu?level=disabled"))
    yield runtime
    runtime.close()


def model(
    nodes: list[NodeProto],
    inputs: list[ValueInfoProto],
    outputs: list[ValueInfoProto],
    *weights: TensorProto,
    opset: int = 17,
) -> ModelProto:
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", opset)])


def asked(proto: ModelProto, **feeds: np.ndarray) -> RunRequest:
    return request(whole(load(proto), {name: StoredTensor.from_array(array) for name, array in feeds.items()}))


def negation() -> RunRequest:
    values = [info("x", FLOAT, [2]), info("y", FLOAT, [2])]
    return asked(model([node("Neg", ["x"], ["y"])], values[:1], values[1:]), x=np.array([1, 2], np.float32))


def endless() -> RunRequest:
    """A Loop of 2**60 turns."""
    body = helper.make_graph(
        [node("Identity", ["c"], ["d"]), node("Neg", ["a"], ["b"])],
        "body",
        [info("i", TensorProto.INT64, []), info("c", TensorProto.BOOL, []), info("a", FLOAT, [1])],
        [info("d", TensorProto.BOOL, []), info("b", FLOAT, [1])],
    )
    turns = numpy_helper.from_array(np.array(2**60, np.int64), "n")
    loop = node("Loop", ["n", "", "x"], ["y"], body=body)
    return asked(model([loop], [info("x", FLOAT, [1])], [info("y", FLOAT, [1])], turns), x=np.ones(1, np.float32))


def is_right(result: RunResult) -> bool:
    return result.status is Status.OK and result.outputs["y"].tolist() == [-1, -2]


def child_of(runtime: PythonOrt) -> psutil.Process:
    assert runtime._child is not None
    return psutil.Process(runtime._child.pid)


def test_runs_and_tells_what_it_is(ort: PythonOrt) -> None:
    result = ort.run(negation(), timeout=ENOUGH)
    assert is_right(result)
    assert result.seconds > 0
    assert ort.describe()["provider"] == "CPUExecutionProvider"
    assert ort.describe()["version"]


def test_fresh_is_a_new_process_and_warm_is_the_same(ort: PythonOrt) -> None:
    ort.run(negation(), timeout=ENOUGH)
    first, started = child_of(ort).pid, ort.seconds_start
    assert started > 0
    assert is_right(ort.run(negation(), timeout=ENOUGH))
    assert child_of(ort).pid == first
    assert ort.seconds_start == started
    assert is_right(ort.run(negation(), timeout=ENOUGH, fresh=True))
    assert child_of(ort).pid != first
    assert ort.seconds_start > started
    assert not psutil.pid_exists(first)


def test_the_last_of_several_runs_counts() -> None:
    """A node that gives something else each time shows which run the values are from."""
    proto = model([node("RandomUniform", [], ["y"], shape=[2], seed=1.0)], [], [info("y", FLOAT, [2])])
    found = []
    for runs in ("1", "2", "2"):
        runtime = PythonOrt(Target.parse(f"ort/cpu?level=disabled&runs={runs}"))
        found.append(runtime.run(asked(proto), timeout=ENOUGH).outputs["y"].tolist())
        runtime.close()
    assert found[0] != found[1] == found[2]


def test_a_hang_is_killed_in_time_and_the_next_run_is_clean(ort: PythonOrt) -> None:
    ort.run(negation(), timeout=ENOUGH)
    pid, began = child_of(ort).pid, time.monotonic()
    result = ort.run(endless(), timeout=1)
    assert result.status is Status.HANG
    assert time.monotonic() - began < 6
    assert not psutil.pid_exists(pid)
    assert is_right(ort.run(negation(), timeout=ENOUGH))


@posix
def test_a_process_killed_between_runs_is_started_again(ort: PythonOrt) -> None:
    ort.run(negation(), timeout=ENOUGH)
    child_of(ort).kill()
    result = ort.run(negation(), timeout=ENOUGH)  # the death may be seen before the run or in it
    assert result.status is Status.DEAD or is_right(result)
    assert is_right(ort.run(negation(), timeout=ENOUGH))


WORKER = """
    import json, os, signal, subprocess, sys, time
    print(json.dumps({"version": "0", "providers": ["CPUExecutionProvider"]}), flush=True)
    for line in sys.stdin:
        job = json.loads(open(json.loads(line)).read())
        ACTION
"""


def with_worker(action: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PythonOrt:
    """A runtime whose worker does something else than to run the model."""
    script = tmp_path / "worker.py"
    script.write_text(textwrap.dedent(WORKER).replace("ACTION", action))
    monkeypatch.setattr(python_ort, "_WORKER", script)
    return PythonOrt(Target.parse("ort/cpu"))


@posix
@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT", "SIGKILL", "SIGBUS"])
def test_a_crash_is_reported_with_its_signal(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    action = f"sys.stderr.write('first\\nlast words\\n'); sys.stderr.flush(); os.kill(os.getpid(), signal.{name})"
    runtime = with_worker(action, tmp_path, monkeypatch)
    try:
        result = runtime.run(negation(), timeout=ENOUGH)
        assert result.status is Status.DEAD
        assert result.message.startswith(name)
        assert result.message.endswith("last words")
        monkeypatch.undo()
        assert is_right(runtime.run(negation(), timeout=ENOUGH))
    finally:
        runtime.close()


@posix
@pytest.mark.parametrize(
    ("words", "status"),
    [("terminate called\n  what():  std::bad_alloc", Status.OUT_OF_MEMORY), ("", Status.DEAD)],
)
def test_a_death_is_explained_by_its_own_last_words(
    words: str, status: Status, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second run dies; what the first one wrote says nothing about it."""
    action = f"""
        seen = globals().get('seen', 0) + 1
        if seen == 1:
            sys.stderr.write('an allocator says: out of memory\\n'); sys.stderr.flush()
            print(json.dumps({{'status': 'run', 'message': 'no', 'seconds': [0, 0]}}), flush=True)
        else:
            sys.stderr.write({words!r}); sys.stderr.flush(); os.abort()
    """
    runtime = with_worker(textwrap.indent(textwrap.dedent(action), " " * 4).strip(), tmp_path, monkeypatch)
    try:
        assert runtime.run(negation(), timeout=ENOUGH).status is Status.RUN_ERROR
        result = runtime.run(negation(), timeout=ENOUGH)
        assert result.status is status
        assert ("out of memory" in result.message) is (status is Status.OUT_OF_MEMORY)
    finally:
        runtime.close()


def test_a_child_that_closes_its_output_and_lives_on_is_dead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "_EXIT_SECONDS", 0.5)
    runtime = with_worker("os.close(1); time.sleep(1000)", tmp_path, monkeypatch)
    began = time.monotonic()
    assert runtime.run(negation(), timeout=ENOUGH).status is Status.DEAD
    assert time.monotonic() - began < ENOUGH / 2
    runtime.close()


@posix
@pytest.mark.parametrize("when", ["answering", "starting"])
def test_an_interrupt_leaves_no_answer_for_the_next_question(
    when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = tmp_path / "asked"
    late = f"open({str(note)!r}, 'w').close(); time.sleep(1)"
    stale = "print(json.dumps({'status': 'run', 'message': 'stale', 'seconds': [0, 0]}), flush=True)"
    runtime = with_worker(f"{late}; {stale}", tmp_path, monkeypatch)
    if when == "starting":
        (tmp_path / "worker.py").write_text(f"import json, sys, time\n{late}\n" + textwrap.dedent(WORKER))

    def interrupt() -> None:
        while not note.exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            runtime.run(negation(), timeout=ENOUGH)
        thread.join()
        monkeypatch.undo()
        assert is_right(runtime.run(negation(), timeout=ENOUGH))
    finally:
        runtime.close()


def test_further_runs_are_timed_until_they_take_too_long(ort: PythonOrt, monkeypatch: pytest.MonkeyPatch) -> None:
    again = replace(negation(), repeats=4)
    result = ort.run(again, timeout=ENOUGH)
    assert is_right(result)
    assert len(result.repeated) == 4
    assert min(result.repeated) > 0
    assert result.seconds_again == np.median(result.repeated)
    assert result.seconds == result.seconds_create + result.seconds_run + sum(result.repeated)
    monkeypatch.setattr(child, "REPEAT_SECONDS", 1e-9)
    assert len(ort.run(again, timeout=ENOUGH).repeated) == 1
    once = ort.run(negation(), timeout=ENOUGH)
    assert (list(once.repeated), once.seconds_again) == ([], 0)


def test_an_answer_broken_off_is_a_death(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = with_worker('sys.stdout.write(\'{"status": "o\'); sys.stdout.flush(); os._exit(3)', tmp_path, monkeypatch)
    assert runtime.run(negation(), timeout=ENOUGH).status is Status.DEAD
    runtime.close()


@posix
@pytest.mark.parametrize("end", ["time.sleep(1000)", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_what_the_child_started_goes_with_it(end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    note = tmp_path / "pid"
    action = f"p = subprocess.Popen(['sleep', '1000']); open({str(note)!r}, 'w').write(str(p.pid)); {end}"
    runtime = with_worker(action, tmp_path, monkeypatch)
    result = runtime.run(negation(), timeout=1.5)
    assert result.status is (Status.HANG if "sleep" in end else Status.DEAD)
    runtime.close()
    grandchild = int(note.read_text())
    for _ in range(100):
        if not psutil.pid_exists(grandchild) or psutil.Process(grandchild).status() == psutil.STATUS_ZOMBIE:
            return
        time.sleep(0.05)
    raise AssertionError("the grandchild lives on")


def test_close_leaves_no_process_and_no_file() -> None:
    runtime = PythonOrt(Target.parse("ort/cpu"))
    runtime.run(negation(), timeout=ENOUGH)
    pid, spool = child_of(runtime).pid, runtime._spool.folder
    assert spool.exists()
    runtime.close()
    runtime.close()
    assert not psutil.pid_exists(pid)
    assert not spool.exists()


@posix
def test_the_child_ends_when_its_parent_is_killed_in_the_middle_of_a_run(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    script = f"""
        import sys, threading, time
        sys.path[:0] = [{str(Path(__file__).parent)!r}, {str(Path(__file__).parents[1])!r}]
        import test_python_ort as tests
        runtime = tests.PythonOrt(tests.Target.parse("ort/cpu"))
        runtime.describe()
        threading.Thread(target=runtime.run, args=(tests.endless(),), kwargs=dict(timeout=1000), daemon=True).start()
        time.sleep(1)
        open({str(note)!r}, "w").write(str(tests.child_of(runtime).pid))
        time.sleep(1000)
    """
    parent = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)])
    while not (note.exists() and note.read_text()):
        assert parent.poll() is None
        time.sleep(0.1)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    child = int(note.read_text())
    for _ in range(100):
        if not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE:
            return
        time.sleep(0.1)
    os.kill(child, signal.SIGKILL)
    raise AssertionError("the child lives on")


def test_errors_at_create_and_at_run(ort: PythonOrt) -> None:
    values = [info("x", FLOAT, ["n"]), info("y", FLOAT, ["m"])]
    unknown = model([node("NoSuchOperator", ["x"], ["y"])], values[:1], values[1:])
    result = ort.run(asked(unknown, x=np.ones(2, np.float32)), timeout=ENOUGH)
    assert result.status is Status.CREATE_ERROR
    assert "NoSuchOperator" in result.message
    shape = numpy_helper.from_array(np.array([7, 7], np.int64), "s")
    reshape = model([node("Reshape", ["x", "s"], ["y"])], values[:1], [info("y", FLOAT, [7, 7])], shape)
    result = ort.run(asked(reshape, x=np.ones(2, np.float32)), timeout=ENOUGH)
    assert result.status is Status.RUN_ERROR
    assert "Reshape" in result.message
    assert is_right(ort.run(negation(), timeout=ENOUGH))


def test_memory_that_is_not_there_is_an_error_and_no_end(ort: PythonOrt) -> None:
    result = ort.run(request(faults.candidate(faults.hungry(1 << 22))), timeout=ENOUGH)
    assert result.status is Status.OUT_OF_MEMORY
    assert result.message.startswith("out of memory: ")
    assert "Expand" in result.message
    assert is_right(ort.run(negation(), timeout=ENOUGH))


@pytest.mark.parametrize("provider", ["cuda", "NoSuchExecutionProvider"])
def test_a_provider_that_is_not_there_is_an_error_of_the_setup(provider: str) -> None:
    import onnxruntime

    if provider == "cuda" and "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        pytest.skip("CUDA is there")
    runtime = PythonOrt(Target.parse(f"ort/{provider}"))
    with pytest.raises(SetupError, match=r"only .*CPUExecutionProvider"):
        runtime.run(negation(), timeout=ENOUGH)
    runtime.close()


def test_a_python_without_onnxruntime_is_an_error_of_the_setup(tmp_path: Path) -> None:
    empty = tmp_path / "onnxruntime.py"
    empty.write_text("raise ImportError('not here')")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    if os.name != "posix":
        pytest.skip("a shell script stands for Python")
    runtime = PythonOrt(Target.parse("ort/cpu"), str(python))
    with pytest.raises(SetupError, match="not here"):
        runtime.run(negation(), timeout=ENOUGH)
    runtime.close()


@pytest.mark.parametrize("options", ["level=some", "threads=many", "threads=-1", "runs=0", "levle=all"])
def test_options_that_are_not_understood(options: str) -> None:
    with pytest.raises(BadInputError):
        PythonOrt(Target.parse(f"ort/cpu?{options}"))


def test_options_reach_the_session() -> None:
    runtime = PythonOrt(
        Target.parse("ort/cpu?level=basic&threads=1&disabled_optimizers=ConstantFolding,EliminateIdentity")
    )
    assert is_right(runtime.run(negation(), timeout=ENOUGH))
    runtime.close()


def test_weights_from_files_and_memory(ort: PythonOrt, tmp_path: Path) -> None:
    import onnx

    values = [info("x", FLOAT, [3000]), info("y", FLOAT, [3000])]
    weights = [numpy_helper.from_array(np.full(3000, value, np.float32), name) for name, value in (("v", 2), ("w", 3))]
    proto = model([node("Mul", ["x", "v"], ["a"]), node("Add", ["a", "w"], ["y"])], values[:1], values[1:], *weights)
    x = np.arange(3000, dtype=np.float32)
    inside = ort.run(asked(proto, x=x), timeout=ENOUGH)
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, location="m.bin")  # both in one file
    outside = ort.run(request(whole(load(tmp_path / "m.onnx"), {"x": StoredTensor.from_array(x)})), timeout=ENOUGH)
    for result in (inside, outside):
        assert result.status is Status.OK, result.message
        assert np.array_equal(result.outputs["y"], 2 * x + 3)


@pytest.mark.parametrize(
    "name",
    [
        "BFLOAT16",
        "FLOAT8E4M3FN",
        "FLOAT8E4M3FNUZ",
        "FLOAT8E5M2",
        "FLOAT8E5M2FNUZ",
        "INT4",
        "UINT4",
        "FLOAT16",
        "BOOL",
        "UINT16",
    ],
)
def test_every_element_type_goes_in_and_out(name: str, ort: PythonOrt) -> None:
    kind = TensorProto.DataType.Value(name)
    array = np.array([[0, 1, 1], [1, 0, 1]], np.float32).astype(helper.tensor_dtype_to_np_dtype(kind))
    nodes = [node("Identity", ["x"], ["y"])]
    if name in ("INT4", "UINT4"):  # for which onnxruntime has little but casts
        nodes = [node("Cast", ["x"], ["f"], to=FLOAT), node("Cast", ["f"], ["y"], to=kind)]
    proto = model(nodes, [info("x", kind, [2, 3])], [info("y", kind, [2, 3])], opset=21)
    result = ort.run(asked(proto, x=array), timeout=ENOUGH)
    assert result.status is Status.OK, result.message
    assert result.outputs["y"].dtype == array.dtype
    assert result.outputs["y"].astype(np.float32).tolist() == array.astype(np.float32).tolist()


@pytest.mark.parametrize("texts", [["", "é\n\0x", "b"], [], ["one"]])
def test_strings_go_in_and_out(texts: list[str], ort: PythonOrt) -> None:
    kind = TensorProto.STRING
    shape = [len(texts)]
    proto = model([node("Identity", ["x"], ["y"])], [info("x", kind, shape)], [info("y", kind, shape)])
    result = ort.run(asked(proto, x=np.array(texts, dtype=object)), timeout=ENOUGH)
    assert result.status is Status.OK, result.message
    assert result.outputs["y"].tolist() == texts


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3)])
def test_scalars_and_empty_tensors(shape: tuple[int, ...], ort: PythonOrt) -> None:
    for dtype, kind in ((np.float32, FLOAT), (np.dtype(object), TensorProto.STRING)):
        array = np.full(shape, "a" if kind == TensorProto.STRING else 1, dtype=dtype)
        values = [info("x", kind, shape), info("y", kind, shape)]
        result = ort.run(
            asked(model([node("Identity", ["x"], ["y"])], values[:1], values[1:]), x=array), timeout=ENOUGH
        )
        assert result.status is Status.OK, result.message
        assert result.outputs["y"].shape == shape
        assert result.outputs["y"].tolist() == array.tolist()


def test_sequences_are_named_and_not_loaded(ort: PythonOrt, tmp_path: Path) -> None:
    sequence = helper.make_tensor_sequence_value_info("s", FLOAT, [2])
    nodes = [node("SequenceConstruct", ["x", "x"], ["s"]), node("Neg", ["x"], ["y"])]
    values = [info("x", FLOAT, [2]), info("y", FLOAT, [2])]
    asked_for = asked(model(nodes, values[:1], [sequence, values[1]]), x=np.array([1, 2], np.float32))
    result, described = ort.run_into(asked_for, tmp_path, timeout=ENOUGH)
    assert is_right(result)
    assert set(result.outputs) == {"y"}
    assert described[0] == {"name": "s", "kind": "not a tensor"}


def test_outputs_travel_as_files_and_stay_out_of_memory(ort: PythonOrt, tmp_path: Path) -> None:
    size = 30_000_000
    values = [info("x", FLOAT, [1]), info("y", FLOAT, [size])]
    shape = numpy_helper.from_array(np.array([size], np.int64), "s")
    asked_for = asked(
        model([node("Expand", ["x", "s"], ["y"])], values[:1], values[1:], shape), x=np.ones(1, np.float32)
    )
    before = psutil.Process().memory_info().rss
    result, described = ort.run_into(asked_for, tmp_path, timeout=ENOUGH, load=False)
    assert psutil.Process().memory_info().rss - before < 4 * size // 3
    assert result.status is Status.OK
    assert not result.outputs
    assert Path(described[0]["path"]).stat().st_size == 4 * size
    assert Path(described[0]["path"]).parent == tmp_path


def test_more_names_than_a_pipe_holds(ort: PythonOrt) -> None:
    """A job goes by file: a pipe that fills while nobody reads would block for ever."""
    count = 2500
    names = [f"output_{at}_" + "n" * 60 for at in range(count)]
    nodes = [node("Neg", ["x"], [name]) for name in names]
    proto = model(nodes, [info("x", FLOAT, [1])], [info(name, FLOAT, [1]) for name in names])
    asked_for = asked(proto, x=np.ones(1, np.float32))
    assert len(json.dumps(names)) > 1 << 17
    result = ort.run(asked_for, timeout=ENOUGH)
    assert result.status is Status.OK, result.message
    assert len(result.outputs) == count
