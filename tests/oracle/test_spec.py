"""Oracle files: what is wrong with one is said in a line, and the shipped ones are found wherever the package lies."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from onnxreduce.errors import BadInputError
from onnxreduce.oracle.comparison import ABSOLUTE
from onnxreduce.oracle.spec import OracleSpec, find, read, shipped
from onnxreduce.runtimes.target import Target

ROOT = Path(__file__).parents[2]
GOOD = 'reference = "ort/cpu?level=disabled"\nsuspect = "ort/cpu"\n'


def written(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text, "utf-8")
    return path


def test_a_file_says_everything(tmp_path: Path) -> None:
    text = (
        GOOD
        + 'description = "mine"\ntimeout = 12\nslower = 10.0\n[tolerance]\nfloat32 = 0.5\n"*" = 0.25\nabsolute = 1e-3\n'
    )
    spec = read(written(tmp_path, text))
    assert (spec.name, spec.description, spec.timeout, spec.slower) == ("mine", "mine", 12, 10)
    assert OracleSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec
    assert spec.reference == Target("ort", provider="cpu", options={"level": "disabled"})
    assert str(spec.suspect) == "ort/cpu"
    assert spec.tolerance.relative == {"float32": 0.5, "*": 0.25}
    assert spec.tolerance.absolute == 1e-3


def test_two_targets_are_enough(tmp_path: Path) -> None:
    spec = read(written(tmp_path, GOOD))
    assert (spec.description, spec.timeout, spec.tolerance.absolute) == ("", None, ABSOLUTE)


BAD = {
    "not TOML": ("reference = ", "mine.toml"),
    "empty": ("", 'reference = "TARGET" is missing'),
    "no suspect": ('reference = "ort/cpu"\n', 'suspect = "TARGET" is missing'),
    "target is a number": ("reference = 1\nsuspect = 2\n", 'reference = "TARGET" is missing'),
    "target is nonsense": ('reference = "ORT cpu"\nsuspect = "ort/cpu"\n', "'ORT cpu' is not of the form"),
    "target is empty": ('reference = ""\nsuspect = "ort/cpu"\n', "is not of the form"),
    "option without a value": ('reference = "ort/cpu?level"\nsuspect = "ort/cpu"\n', "key=value"),
    "unknown key": (GOOD + "refrence = 1\n", "unknown key 'refrence'; known: description, reference"),
    "timeout is a text": (GOOD + 'timeout = "long"\n', "timeout is a number of seconds above 0"),
    "timeout is zero": (GOOD + "timeout = 0\n", "timeout is a number of seconds above 0"),
    "timeout is true": (GOOD + "timeout = true\n", "timeout is a number of seconds above 0"),
    "timeout is nan": (GOOD + "timeout = nan\n", "timeout is a number of seconds above 0"),
    "slower is a text": (GOOD + 'slower = "ten times"\n', "slower is a factor above 1"),
    "slower is no more": (GOOD + "slower = 1\n", "slower is a factor above 1"),
    "description is a table": (GOOD + "[description]\n", "description is a text"),
    "tolerance is a number": (GOOD + "tolerance = 1\n", "tolerance is a table of numbers by dtype"),
    "tolerance of no dtype": (GOOD + "[tolerance]\nflot32 = 1\n", "unknown key tolerance.flot32; known: float64"),
    "tolerance of an exact dtype": (GOOD + "[tolerance]\nint64 = 1\n", "unknown key tolerance.int64"),
    "tolerance is negative": (GOOD + "[tolerance]\nfloat32 = -1\n", "tolerance.float32 is a number of at least 0"),
    "tolerance is nan": (GOOD + "[tolerance]\nabsolute = nan\n", "tolerance.absolute is a number of at least 0"),
    "tolerance is a text": (GOOD + '[tolerance]\nfloat32 = "1e-3"\n', "tolerance.float32 is a number of at least 0"),
}


@pytest.mark.parametrize(("text", "said"), BAD.values(), ids=BAD)
def test_what_is_wrong_is_one_clear_line(tmp_path: Path, text: str, said: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(BadInputError) as caught:
        read(path)
    message = str(caught.value)
    assert said in message
    assert str(path) in message
    assert len(message.splitlines()) == 1


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="does not exist"):
        find(str(tmp_path / "none.toml"))
    with pytest.raises(BadInputError, match="does not exist"):
        find(str(tmp_path) + "/.toml")
    (tmp_path / "latin.toml").write_bytes(b'description = "\xff"')
    with pytest.raises(BadInputError, match=r"latin\.toml"):
        find(str(tmp_path / "latin.toml"))


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(BadInputError, match=r"unknown oracle 'web'; known: .*webgpu-vs-wasm"):
        find("web")


def test_every_shipped_oracle_reads_and_says_what_it_is() -> None:
    assert "webgpu-vs-wasm" in shipped()
    for name in shipped():
        spec = find(name)
        assert spec.name == name
        assert spec.description
        assert spec.reference.version or spec.reference.runtime != "ort-web"


def test_the_shipped_oracles_are_inside_the_wheel(tmp_path: Path) -> None:
    make = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", tmp_path, ROOT]
    if importlib.util.find_spec("hatchling"):
        make.append("--no-build-isolation")
    done = subprocess.run(make, capture_output=True, text=True, check=False)
    if done.returncode and "No matching distribution found for hatchling" in done.stderr:
        pytest.skip("the build backend hatchling is not installed here, and cannot be fetched")
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    ask = "from onnxreduce.oracle.spec import find, shipped; print(*shipped()); print(find('webgpu-vs-wasm').suspect)"
    isolated = f"import sys; sys.path.insert(0, {str(tmp_path / 'installed')!r}); {ask}"
    told = subprocess.run([sys.executable, "-c", isolated], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert told.stdout.splitlines() == [" ".join(shipped()), str(find("webgpu-vs-wasm").suspect)]
