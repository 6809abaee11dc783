"""Commands and functions as oracles: what each answer means, and that nothing they start outlives them."""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path

import children
import faults
import numpy as np
import onnx
import psutil
import pytest

import onnxreduce
from onnxreduce.errors import BadInputError, SetupError
from onnxreduce.oracle.custom import CommandOracle, FunctionOracle, custom
from onnxreduce.oracle.signature import Kind
from onnxreduce.oracle.verdict import Outcome, Verdict
from onnxreduce.reduction.driver import Shrinks
from onnxreduce.reduction.result import Status

EXAMPLES = Path(__file__).parents[2] / "examples"
DELETION = Shrinks(passes=())
posix = pytest.mark.skipif(os.name != "posix", reason="shell scripts")


def script(path: Path, text: str) -> Path:
    """A program of the user's own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def judge(oracle: CommandOracle | FunctionOracle, case: faults.Case | None = None) -> Verdict:
    return oracle.judge(faults.candidate(case or faults.healthy()))


def command(folder: Path, text: str, timeout: float | None = None) -> CommandOracle:
    path = script(folder / "oracle.sh", f"#!/bin/sh\n{text}\n")
    return CommandOracle(f"command: {path} {{model}} {{inputs}}", timeout)


def function(folder: Path, text: str, name: str = "judge") -> FunctionOracle:
    path = folder / "mine.py"
    path.write_text(text)
    return FunctionOracle(f"{path}:{name}")


@posix
@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        ("exit 0", Outcome.FAILS),
        ("exit 1", Outcome.PASSES),
        ("exit 125", Outcome.UNRESOLVED),
        ("exit 124", Outcome.PASSES),
        ("exit 2", Outcome.PASSES),
        ("kill -SEGV $$", Outcome.PASSES),
    ],
)
def test_an_exit_code_is_a_verdict(tmp_path: Path, code: str, outcome: Outcome) -> None:
    verdict = judge(command(tmp_path, code))
    assert verdict.outcome is outcome
    assert verdict.seconds > 0
    assert (verdict.signature is not None) is (outcome is Outcome.FAILS)
    if outcome is Outcome.UNRESOLVED:
        assert verdict.message == "the command cannot tell"


@posix
def test_the_command_gets_a_whole_model_and_its_inputs(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    assert judge(command(tmp_path, f'cp -r "$PWD" {kept}; [ "$PWD/model.onnx" = "$1" ]'), faults.normalisation())
    proto, feeds = faults.normalisation()
    onnx.checker.check_model(kept / "model.onnx", full_check=True)
    assert len(onnx.load(kept / "model.onnx").graph.node) == len(proto.graph.node)
    (file,) = (kept / "test_data_set_0").iterdir()
    tensor = onnx.load_tensor(str(file))
    assert (file.name, tensor.name) == ("input_0.pb", "x")
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(tensor), feeds["x"])


@posix
def test_places_are_filled_inside_words_too(tmp_path: Path) -> None:
    path = script(
        tmp_path / "oracle.sh", '#!/bin/sh\n[ -f "${1#--model=}" ] && [ -d "${2#at:}" ] && [ "$3" = "a b" ]\n'
    )
    oracle = CommandOracle(f"command: {path} --model={{model}} at:{{inputs}} 'a b'")
    assert judge(oracle).outcome is Outcome.FAILS


@posix
def test_weights_outside_are_put_inside(tmp_path: Path) -> None:
    proto, feeds = faults.normalisation()
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.arange(5000, dtype=np.float32), "large"))
    judge(command(tmp_path, f'cp "$1" {tmp_path}/seen.onnx'), (proto, feeds))
    seen = {tensor.name: tensor for tensor in onnx.load(tmp_path / "seen.onnx").graph.initializer}
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(seen["large"]), np.arange(5000, dtype=np.float32))


@posix
def test_paths_with_spaces_and_paths_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(tmp_path / "my oracles" / "is it.sh", '#!/bin/sh\n[ "$(cat "$2")" = word ] && [ -f "$1" ]\n')
    (tmp_path / "beside.txt").write_text("word")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "my oracles"))
    oracle = CommandOracle("command: 'my oracles/is it.sh' {model} beside.txt")
    monkeypatch.chdir(tmp_path.parent)
    assert judge(oracle).outcome is Outcome.FAILS


@posix
def test_a_link_keeps_its_name(tmp_path: Path) -> None:
    (tmp_path / "busy").symlink_to(script(tmp_path / "real.sh", '#!/bin/sh\n[ "$(basename "$0")" = busy ]\n'))
    assert judge(CommandOracle(f"command: {tmp_path}/busy {{model}}")).outcome is Outcome.FAILS


@posix
def test_nothing_is_left_in_the_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "place"))
    (tmp_path / "place").mkdir()
    judge(command(tmp_path, "mkdir more; echo a > more/file"))
    assert list((tmp_path / "place").iterdir()) == []


DAEMON = """
import os, sys, time
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
os.chdir("/")
open(sys.argv[1], "a").write(f"{os.getpid()}\\n")
time.sleep(600)
"""


def _gone(file: Path) -> bool:
    pids = [int(line) for line in file.read_text().split()]
    assert pids
    return all(not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE for pid in pids)


def _started(folder: Path) -> str:
    """Shell words that start a child, a child in a session of its own and a daemon, and write down their numbers."""
    daemon = folder / "daemon.py"
    daemon.write_text(DAEMON)
    pids = folder / "pids"
    return f"""
sleep 600 & echo $! >> {pids}
setsid sleep 600 & echo $! >> {pids}
{sys.executable} {daemon} {pids}
while [ "$(wc -l < {pids})" -lt 3 ]; do sleep 0.05; done
"""


@posix
def test_a_command_that_hangs_is_killed_with_all_that_it_started(tmp_path: Path) -> None:
    oracle = command(tmp_path, f"{_started(tmp_path)}\nsleep 600", timeout=3)
    begun = time.monotonic()
    verdict = judge(oracle)
    assert (verdict.outcome, verdict.message) == (Outcome.UNRESOLVED, "the command hangs")
    assert time.monotonic() - begun < 10
    assert len((tmp_path / "pids").read_text().split()) == 3
    assert _gone(tmp_path / "pids")


@posix
def test_what_outlives_a_command_is_killed_too(tmp_path: Path) -> None:
    assert judge(command(tmp_path, f"{_started(tmp_path)}\nexit 0", timeout=30)).outcome is Outcome.FAILS
    assert len((tmp_path / "pids").read_text().split()) == 3
    assert _gone(tmp_path / "pids")


@posix
def test_a_command_that_floods_its_output_does_not_block(tmp_path: Path) -> None:
    assert judge(command(tmp_path, "head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2", 30)).signature


@posix
def test_a_command_has_no_standard_input(tmp_path: Path) -> None:
    assert judge(command(tmp_path, "read line && exit 1; exit 0", 30)).outcome is Outcome.FAILS


@pytest.mark.parametrize("text", ["no-such-program-at-all {model}", "./no/such/program {model}"])
def test_a_command_that_is_not_there_is_a_mistake_of_the_setup(text: str) -> None:
    with pytest.raises(SetupError, match=r"cannot be run: No such file"):
        judge(CommandOracle(f"command: {text}"))
    assert SetupError.exit_code == 3


@posix
def test_a_command_that_may_not_run_says_so(tmp_path: Path) -> None:
    (tmp_path / "plain.sh").write_text("#!/bin/sh\n")
    with pytest.raises(SetupError, match="Permission denied"):
        judge(CommandOracle(f"command: {tmp_path}/plain.sh"))


@pytest.mark.parametrize(
    ("text", "said"), [("command:  ", "names no command"), ("command: 'a", "No closing quotation")]
)
def test_a_command_that_cannot_be_read(text: str, said: str) -> None:
    with pytest.raises(BadInputError, match=said):
        custom(text)


@pytest.mark.parametrize(
    ("returned", "outcome"),
    [
        ("True", Outcome.FAILS),
        ("False", Outcome.PASSES),
        ("None", Outcome.UNRESOLVED),
        ("np.bool_(True)", Outcome.FAILS),
        ("np.allclose(inputs['x'], -1)", Outcome.PASSES),
    ],
)
def test_what_a_function_returns_is_a_verdict(tmp_path: Path, returned: str, outcome: Outcome) -> None:
    oracle = function(tmp_path, f"import numpy as np\ndef judge(model, inputs):\n    return {returned}\n")
    assert judge(oracle).outcome is outcome


def test_a_text_is_a_message_and_part_of_the_signature(tmp_path: Path) -> None:
    text = "def judge(model, inputs):\n    return f'node {len(model.graph.node)} broke at {list(inputs)}'\n"
    verdict = judge(function(tmp_path, text))
    assert (verdict.outcome, verdict.message) == (Outcome.FAILS, "node 1 broke at ['x']")
    assert verdict.signature is not None and verdict.signature.kind is Kind.INTERESTING
    other = judge(function(tmp_path, text), faults.normalisation())
    assert other.signature is not None and verdict.signature.matches(other.signature)
    assert not verdict.signature.matches(judge(function(tmp_path, "def judge(*_): return 'else'")).signature)  # type: ignore[arg-type]


def test_a_function_gets_a_copy_that_it_may_spoil(tmp_path: Path) -> None:
    oracle = function(
        tmp_path, "def judge(model, inputs):\n    del model.graph.node[:]\n    inputs.clear()\n    return True\n"
    )
    candidate = faults.candidate(faults.healthy())
    oracle.judge(candidate)
    assert len(candidate.model.proto.graph.node) == 1
    assert list(candidate.feeds) == ["x"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def judge(model, inputs):\n    return 1 / 0\n", "raised ZeroDivisionError: division by zero"),
        ("def judge(model, inputs):\n    return 0\n", "returned 0: it returns True, False, None or a text"),
        ("def judge(model, inputs):\n    return inputs['x']\n", "it returns True, False, None or a text"),
        ("def judge():\n    return True\n", "raised TypeError"),
    ],
)
def test_a_mistake_in_a_function_is_told(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(BadInputError, match=said):
        judge(function(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "mine.py has no function 'judge'"),
        ("judge = 3", "mine.py has no function 'judge'"),
        ("import no_such_module_at_all", "cannot be imported: ModuleNotFoundError"),
        ("def judge(", "cannot be imported: SyntaxError"),
        ("import sys; sys.exit(3)", "cannot be imported: SystemExit"),
    ],
)
def test_a_file_without_the_function_is_told(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(BadInputError, match=said):
        function(tmp_path, text)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"no file .*nowhere\.py"):
        custom(f"{tmp_path}/nowhere.py:judge")
    with pytest.raises(BadInputError, match=r"names no function; write .*mine\.py:FUNCTION"):
        custom(f"{tmp_path}/mine.py")


def test_a_function_may_use_dataclasses_and_modules_beside_it(tmp_path: Path) -> None:
    (tmp_path / "beside_mine.py").write_text("ANSWER = True\n")
    text = (
        "from __future__ import annotations\nfrom dataclasses import dataclass, field\nfrom typing import ClassVar\n"
        "from beside_mine import ANSWER\n@dataclass\nclass C:\n    a: ClassVar[int] = 1\n    b: bool = ANSWER\n"
        "def judge(model, inputs):\n    return C().b\n"
    )
    assert judge(function(tmp_path, text)).outcome is Outcome.FAILS


def test_a_path_with_spaces_is_fine(tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    assert judge(function(tmp_path / "a b", "def judge(*_): return True")).outcome is Outcome.FAILS


def test_other_texts_name_other_oracles() -> None:
    assert custom("webgpu-vs-wasm") is None
    assert custom("folder/mine.toml") is None


@posix
def test_exit_codes_at_the_command_line(tmp_path: Path) -> None:
    model, data = faults.save(faults.normalisation(), tmp_path)
    common = ["check", model, "--inputs", data, "--oracle"]

    def code(oracle: str) -> tuple[int, list[str]]:
        done = children.onnxreduce(*common, oracle, cwd=tmp_path)
        return done.code, done.words

    script(tmp_path / "yes.sh", "#!/bin/sh\nexit 0\n")
    assert code("command: ./yes.sh {model}") == (1, [])
    assert code("command: false")[0] == 0
    gone, words = code("command: ./gone.sh {model}")
    assert gone == 3
    assert len(words) == 1 and "gone.sh' cannot be run: No such file or directory" in words[0]
    (tmp_path / "mine.py").write_text("def judge(model, inputs):\n    return len(model.graph.node) > 3\n")
    assert code("mine.py:judge") == (1, [])
    assert code("mine.py:other")[0] == 2


@posix
@pytest.mark.slow
@pytest.mark.parametrize("size", [(0, 0), (4, 3)], ids=["alone", "hosted"])
def test_the_command_of_the_examples_reduces_a_real_fault(
    tmp_path: Path, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    shutil.copy(EXAMPLES / "interesting.sh", tmp_path)
    proto, feeds = faults.hosted(*size)
    monkeypatch.chdir(tmp_path)
    done = onnxreduce.reduce(proto, "command: ./interesting.sh {model} {inputs}", feeds, shrinks=DELETION)
    _check_reduced(done)
    assert done.summary["runtime"].startswith("command: ./interesting.sh")


@pytest.mark.parametrize("size", [(0, 0), (20, 18)], ids=["alone", "hosted"])
def test_the_function_of_the_examples_reduces_a_real_fault(size: tuple[int, int]) -> None:
    proto, feeds = faults.hosted(*size)
    oracle = f"{EXAMPLES / 'python_oracle.py'}:optimizations_differ"
    _check_reduced(onnxreduce.reduce(proto, oracle, feeds, shrinks=DELETION))


def _check_reduced(done: onnxreduce.Reduction) -> None:
    assert done.status is Status.REDUCED
    assert done.nodes_after <= faults.MINIMUM
    assert done.summary["signature"] == "interesting"
    assert done.summary["one_minimal"]
    assert {"ReduceMean", "Div"} <= set(done.summary["operators"])


def test_a_fault_that_only_a_message_names_is_kept_apart(tmp_path: Path) -> None:
    """A text pins the fault: a candidate that fails with another text is not followed."""
    (tmp_path / "mine.py").write_text(
        "def judge(model, inputs):\n"
        "    kinds = {node.op_type for node in model.graph.node}\n"
        "    return 'first' if 'Pow' in kinds else 'second' if 'Div' in kinds else False\n"
    )
    proto, feeds = faults.normalisation()
    done = onnxreduce.reduce(proto, f"{tmp_path}/mine.py:judge", feeds, shrinks=DELETION)
    assert done.summary["operators"] == ["Pow"]
    assert done.summary["signature"] == "interesting: first"
