"""A package that examples/onnxruntime-32134/fix.py has repaired, in a real browser, beside the package as published."""

import shutil
import sys
from pathlib import Path

import founding_models
import pytest

import onnxreduce
from onnxreduce.errors import SetupError
from onnxreduce.oracle.build import Setup
from onnxreduce.runtimes.packages import ort_web_package

FOLDER = Path(__file__).parents[2] / "examples" / "onnxruntime-32134"
sys.path.insert(0, str(FOLDER))

import conditions  # noqa: E402
import fix  # noqa: E402
import timeline  # noqa: E402

pytestmark = pytest.mark.browser

# What their test runner gives: `it`, collected here, and a global `assert`.
RUNNER = """async (bundle) => {
  globalThis.ort = await import(bundle);
  ort.env.wasm.numThreads = 1;
  const said = [];
  for (const [name, body] of globalThis.collected) {
    try {
      await body();
    } catch (error) {
      said.push(`${name}: ${error.message}`);
    }
  }
  return said;
}"""
GLOBALS = """
globalThis.collected = [];
globalThis.it = (name, body) => collected.push([name, body]);
globalThis.assert = (holds, words) => { if (!holds) throw new Error(words); };
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """The part of the pinned package that is run, as published and repaired."""
    try:
        dist = ort_web_package(timeline.PINNED).dist
    except SetupError as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("packages")
    published, repaired = folder / "published", folder / "repaired"
    (published / "dist").mkdir(parents=True)
    for name in ("ort.bundle.min.mjs", "ort-wasm-simd-threaded.jsep.wasm"):
        shutil.copy(dist / name, published / "dist" / name)
    assert fix.repair_package(published, repaired) == {"dist/ort.bundle.min.mjs": "own encoder"}
    yield published, repaired
    shutil.rmtree(folder)


def test_depth_3_fails_before_the_repair_and_agrees_after(packages):
    model = founding_models.build(3)
    before, after = (
        onnxreduce.check(model, inputs=founding_models.inputs(model), setup=Setup(ort_web=str(folder))).golden.verdict
        for folder in packages
    )
    assert before.outcome is onnxreduce.Outcome.FAILS
    assert before.wrong_outputs == ["D"]
    assert after.outcome is onnxreduce.Outcome.PASSES


def test_the_test_for_the_runtimes_repository_tells_the_packages_apart(packages):
    said = []
    for folder in packages:
        with timeline.opened(str(folder)) as (page, bundle):
            page.add_init_script(GLOBALS)
            page.goto(bundle)
            page.add_script_tag(path=FOLDER / "browser-test-webgpu-upload-order.js")
            said.append(page.evaluate(RUNNER, bundle))
    before, after = said
    assert [line.partition("uploads stay in order ")[2] for line in before] == [
        "behind 2 dispatches: D is 2 instead of -7",
        "behind 17 dispatches: ad is -7 instead of -2",
    ]
    assert after == []


@pytest.mark.parametrize(
    ("words", "wrong"),
    [("two CPU branches", ("E",)), ("[194] and [194]", ("D",)), ("[194] and [200]", ())],
    ids=["a pending reader", "a pending writer", "no buffer shared"],
)
def test_conditions_are_as_the_table_says(packages, words, wrong):
    (row,) = (row for row in conditions.conditions() if row.words.startswith(words))
    assert row.wrong == wrong
    assert [conditions.judge(row, folder) for folder in packages] == [wrong, ()]
