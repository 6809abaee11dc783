"""onnxruntime-web in a real Chromium: right results, known faults, and the right words for what went wrong."""

from __future__ import annotations

from collections.abc import Callable

import faults
import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper
from web_models import add, concat_nine, founding, maxpool_ceil, request

from onnxreduce.errors import BadInputError, SetupError
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.runtimes.base import RunRequest, Status
from onnxreduce.runtimes.base import request as base_request
from onnxreduce.runtimes.browser.host import BrowserHost
from onnxreduce.runtimes.browser.ort_web import OrtWebRuntime

pytestmark = pytest.mark.browser

Make = Callable[[str], OrtWebRuntime]
SECONDS = 60.0

WASM = "ort-web@1.27.0/wasm"
JSEP = "ort-web@1.27.0/webgpu"
NATIVE = "ort-web@1.27.0/webgpu?bundle=webgpu"


@pytest.mark.parametrize("target", [WASM, f"{WASM}?bundle=wasm", JSEP, NATIVE, "ort-web@1.27.0/webgpu?bundle=jspi"])
def test_a_small_model_is_right(runtime: Make, target: str) -> None:
    web = runtime(target)
    for fresh in (False, False, True):
        result = web.run(add(), timeout=SECONDS, fresh=fresh)
        assert (result.status, result.message) == (Status.OK, "")
        np.testing.assert_array_equal(result.outputs["y"], np.arange(8, dtype=np.float32) + 2)
        assert result.seconds_create > 0
        assert result.seconds_run > 0
    assert web.seconds_start > 0


@pytest.mark.parametrize(
    "target", [f"{WASM}?runs=2", f"{JSEP}?enableGraphCapture=1&runs=3", f"{NATIVE}&enableGraphCapture=1&runs=3"]
)
def test_the_last_of_several_runs_counts_also_of_a_captured_graph(runtime: Make, target: str) -> None:
    result = runtime(target).run(add(), timeout=SECONDS)
    assert (result.status, result.message) == (Status.OK, "")
    np.testing.assert_array_equal(result.outputs["y"], np.arange(8, dtype=np.float32) + 2)


def test_a_graph_with_nodes_on_the_cpu_cannot_be_captured(runtime: Make) -> None:
    """The runtime's own words show that the option has reached it."""
    result = runtime(f"{JSEP}?enableGraphCapture=1").run(founding(), timeout=SECONDS)
    assert result.status is Status.CREATE_ERROR
    assert "graph capture" in result.message


@pytest.mark.parametrize("version", ["1.22.0", "1.30.0"])
def test_other_versions_run_too(runtime: Make, version: str) -> None:
    for provider in ("wasm", "webgpu"):
        result = runtime(f"ort-web@{version}/{provider}").run(add(), timeout=SECONDS)
        assert (result.status, result.message) == (Status.OK, "")


ARRAYS = [
    np.array([[1.5, -2.25], [np.inf, 0.0]], np.float32),
    np.array([1e300, -0.1], np.float64),
    np.array([1.5, -65504.0, 6e-8], np.float16),
    np.array([-128, 127], np.int8),
    np.array([0, 255], np.uint8),
    np.array([-32768, 32767], np.int16),
    np.array([0, 65535], np.uint16),
    np.array([-(2**31), 2**31 - 1], np.int32),
    np.array([0, 2**32 - 1], np.uint32),
    np.array([-(2**63), 2**63 - 1, 0], np.int64),
    np.array([0, 2**64 - 1], np.uint64),
    np.array([[True, False, True]]),
    np.array(["", "eins", "zwei – drei", "😀"], object),
    np.array(7.5, np.float32),
    np.array(2**53 + 1, np.int64),
    np.zeros((0,), np.float32),
    np.zeros((2, 0, 3), np.int64),
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype}-{'x'.join(map(str, array.shape))}")
@pytest.mark.parametrize("version", ["1.22.0", "1.30.0"])
def test_every_type_makes_the_round_trip(runtime: Make, version: str, array: np.ndarray) -> None:
    kind = StoredTensor.from_array(array).elem_type
    asked = request([helper.make_node("Identity", ["x"], ["y"])], {"x": array}, {"y": kind}, opset=16)
    result = runtime(f"ort-web@{version}/wasm").run(asked, timeout=SECONDS)
    assert (result.status, result.message) == (Status.OK, "")
    assert result.outputs["y"].dtype == array.dtype
    assert result.outputs["y"].shape == array.shape
    np.testing.assert_array_equal(result.outputs["y"], array)


def test_a_type_that_the_runtime_lacks_is_a_run_error(runtime: Make) -> None:
    asked = request(
        [helper.make_node("Identity", ["x"], ["y"])],
        {"x": np.ones(2, ml_dtypes.bfloat16)},
        {"y": TensorProto.BFLOAT16},
    )
    result = runtime(WASM).run(asked, timeout=SECONDS)
    assert result.status is Status.RUN_ERROR
    assert "bfloat16" in result.message


@pytest.mark.parametrize("target", [WASM, JSEP, NATIVE])
def test_external_data_is_found_by_its_digest(runtime: Make, target: str) -> None:
    rng = np.random.default_rng(1)
    x, w, b = (rng.normal(size=shape).astype(np.float32) for shape in ((4, 64), (64, 128), (128,)))
    asked = request(
        [helper.make_node("Gemm", ["x", "w", "b"], ["y"])],
        {"x": x},
        {"y": TensorProto.FLOAT},
        external={"w": w, "b": b},
    )
    for fresh in (False, True):
        result = runtime(target).run(asked, timeout=SECONDS, fresh=fresh)
        assert (result.status, result.message) == (Status.OK, "")
        np.testing.assert_allclose(result.outputs["y"], x @ w + b, rtol=1e-4, atol=1e-4)


def test_large_tensors_travel(runtime: Make) -> None:
    x = np.arange(12_000_000, dtype=np.float32)  # 48 MB, fetched ahead of the clock
    asked = request([helper.make_node("Neg", ["x"], ["y"])], {"x": x}, {"y": TensorProto.FLOAT})
    result = runtime(WASM).run(asked, timeout=SECONDS)
    assert result.status is Status.OK
    np.testing.assert_array_equal(result.outputs["y"], -x)


def test_the_founding_fault_shows_under_jsep_alone(runtime: Make) -> None:
    asked = founding()
    expected = runtime(WASM).run(asked, timeout=SECONDS).outputs["D"]
    jsep, native = runtime(JSEP), runtime(NATIVE)
    wrong = [jsep.run(asked, timeout=SECONDS, fresh=fresh) for fresh in (True, False, False, True)]
    right = [native.run(asked, timeout=SECONDS, fresh=fresh) for fresh in (True, False, True)]
    assert {result.status for result in wrong + right} == {Status.OK}
    for result in wrong:
        assert np.abs(result.outputs["D"] - expected).max() > 1000
        np.testing.assert_array_equal(result.outputs["D"], wrong[0].outputs["D"])
    for result in right:
        np.testing.assert_array_equal(result.outputs["D"], expected)


def test_a_shader_error_is_told_of_the_run_that_made_it(runtime: Make) -> None:
    web = runtime(JSEP)
    for _ in range(4):
        bad = web.run(concat_nine(), timeout=SECONDS)
        assert bad.status is Status.SHADER_ERROR
        assert bad.message.startswith("GPUValidationError")
        assert bad.outputs["y"].shape == (1, 36)
        good = web.run(add(), timeout=SECONDS)
        assert (good.status, good.message) == (Status.OK, "")
        again = web.run(add(), timeout=SECONDS)
        assert (again.status, again.message) == (Status.OK, "")


def test_a_poisoned_page_is_left_behind(runtime: Make) -> None:
    web = runtime(JSEP)
    for _ in range(3):
        bad = web.run(maxpool_ceil(), timeout=SECONDS)
        assert bad.status is Status.RUN_ERROR
        assert "ceil()" in bad.message
        good = web.run(add(), timeout=SECONDS)
        assert (good.status, good.message) == (Status.OK, "")


@pytest.mark.parametrize("target", [WASM, JSEP, NATIVE])
def test_a_model_that_cannot_be_loaded_is_a_create_error(runtime: Make, target: str) -> None:
    web = runtime(target)
    unknown = request([helper.make_node("NoSuchOperator", ["x"], ["y"])], {"x": np.zeros(1, np.float32)}, {"y": 1})
    for asked in (unknown, RunRequest(b"no model at all", {}, ["y"])):
        result = web.run(asked, timeout=SECONDS)
        assert result.status is Status.CREATE_ERROR
        assert result.message
        assert not result.outputs
    assert web.run(add(), timeout=SECONDS).status is Status.OK


def test_old_builds_throw_numbers_and_still_tell_why(runtime: Make) -> None:
    unknown = request([helper.make_node("NoSuchOperator", ["x"], ["y"])], {"x": np.zeros(1, np.float32)}, {"y": 1})
    result = runtime("ort-web@1.22.0/wasm").run(unknown, timeout=SECONDS)
    assert result.status is Status.CREATE_ERROR
    assert "No Op registered for NoSuchOperator" in result.message


@pytest.mark.parametrize("version", ["1.22.0", "1.27.0"])
def test_memory_that_runs_out_is_a_class_of_its_own(runtime: Make, version: str) -> None:
    """Eight values of 500 MiB have no room in 4 GiB; an old build throws std::bad_alloc, which has no text."""
    web = runtime(f"ort-web@{version}/wasm")
    result = web.run(base_request(faults.candidate(faults.hungry(500, 8))), timeout=SECONDS)
    assert result.status is Status.OUT_OF_MEMORY
    assert "bad_alloc" in result.message
    assert web.run(add(), timeout=SECONDS).status is Status.OK


def test_a_refusal_to_grow_is_seen_until_less_is_granted(host: BrowserHost) -> None:
    script = """async () => {
        const { shareModules } = await import(new URL('modules.js', location.href));
        const shared = shareModules(null);
        const memory = new WebAssembly.Memory({ initial: 1, maximum: 3 });
        const seen = [];
        for (const pages of [1, 9, 1, 1]) {
            try { memory.grow(pages); } catch { seen.push('refused'); }
            seen.push(shared.refused);
        }
        return seen;
    }"""

    async def evaluated() -> object:
        async with host.tab("auto", webgpu=False) as tab:
            there = await tab._browser.new_page()  # type: ignore[union-attr]
            await there.goto(tab.server.url("page", "frame.html"))
            return await there.evaluate(script)

    assert host.call(evaluated()) == [False, "refused", True, False, "refused", True]


def test_wrong_feeds_are_a_run_error(runtime: Make) -> None:
    asked = add()
    result = runtime(WASM).run(RunRequest(asked.model, {}, ["y"]), timeout=SECONDS)
    assert result.status is Status.RUN_ERROR
    assert "x" in result.message


def test_session_and_provider_options_reach_the_runtime(runtime: Make) -> None:
    names = "ReshapeFusion,MatMulAddFusion"
    for options in (f"level=disabled&disabled_optimizers={names}", "preferredLayout=NHWC", "level=layout&threads=2"):
        result = runtime(f"ort-web@1.30.0/webgpu?bundle=webgpu&{options}").run(add(), timeout=SECONDS)
        assert (result.status, result.message) == (Status.OK, "")


def test_a_node_forced_to_the_cpu_heals_the_native_convolution(runtime: Make) -> None:
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(1, 6, 8, 8)).astype(np.float32), rng.normal(size=(4, 6, 3, 3)).astype(np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="conv", kernel_shape=[3, 3])
    asked = request([node], {"x": x}, {"y": TensorProto.FLOAT}, weights={"w": w})
    native = "ort-web@1.30.0/webgpu?bundle=webgpu"
    expected = runtime("ort-web@1.30.0/wasm").run(asked, timeout=SECONDS).outputs["y"]
    wrong = runtime(native).run(asked, timeout=SECONDS).outputs["y"]
    healed = runtime(f"{native}&forceCpuNodeNames=other,conv").run(asked, timeout=SECONDS).outputs["y"]
    assert np.abs(wrong - expected).max() > 0.1
    np.testing.assert_allclose(healed, expected, rtol=1e-5, atol=1e-5)


def test_many_targets_take_turns(runtime: Make) -> None:
    webs = [runtime(f"{WASM}?level={level}") for level in ("disabled", "basic", "extended", "all")]
    webs += [runtime(f"{JSEP}?level={level}") for level in ("disabled", "basic", "extended", "all")]
    for _ in range(2):
        assert {web.run(add(), timeout=SECONDS).status for web in webs} == {Status.OK}


def test_what_ran_is_described(runtime: Make) -> None:
    facts = runtime(NATIVE).describe()
    assert facts["runtime"] == "onnxruntime-web"
    assert facts["version"] == "1.27.0"
    assert facts["bundle"] == "ort.webgpu.bundle.min.mjs"
    assert facts["wasm"] == "ort-wasm-simd-threaded.asyncify.wasm"
    assert facts["provider"] == "webgpu"
    assert facts["browser_version"]
    assert facts["adapter"]
    assert facts["adapter_software"] in ("yes", "no")
    assert "adapter" not in runtime(WASM).describe()


def test_a_provider_that_cannot_start_is_an_error_of_the_setup(runtime: Make) -> None:
    with pytest.raises(SetupError, match=r"ort\.wasm\.bundle\.min\.mjs does not start with provider webgpu"):
        runtime(f"{JSEP}?bundle=wasm").run(add(), timeout=SECONDS)
    with pytest.raises(SetupError, match="'layout'"):
        runtime("ort-web@1.22.0/wasm?level=layout").run(add(), timeout=SECONDS)
    with pytest.raises(SetupError, match="no bundle 'jspi'"):
        runtime("ort-web@1.22.0/webgpu?bundle=jspi")


@pytest.mark.parametrize(
    "options",
    [
        "bundle=odd",
        "level=high",
        "threads=0",
        "threads=two",
        "runs=0",
        "enableGraphCapture=yes",
        "adapter=best",
        "epoch=3",
    ],
)
def test_impossible_options_are_refused(runtime: Make, options: str) -> None:
    with pytest.raises(BadInputError):
        runtime(f"{WASM}?{options}")
