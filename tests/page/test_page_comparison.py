"""The page's comparison is the tool's: same figures for the same pair of tensors, bit by bit."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from importlib import resources

import ml_dtypes
import numpy as np
import pytest
from page_reader import Opened, Served

from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.oracle.comparison import Tolerance, compare
from onnxreduce.oracle.verdict import Outcome, Verdict
from onnxreduce.reduction.page import measured

pytestmark = pytest.mark.browser

FLOATS = [np.float16, np.float32, np.float64]
EXACT = [
    np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64, ml_dtypes.int4, ml_dtypes.uint4,
    np.bool_,
]  # fmt: skip
SHAPES = [(), (1,), (7,), (3, 5), (2, 1, 9), (0,), (2, 0, 3)]
TOLERANCES = [
    Tolerance(),
    Tolerance({"float32": 1e-5, "*": 0.5}, 0.0, 0.0),
    Tolerance(noise=1e-3),
    Tolerance({"*": 0.0}, 0.0),
]


def floats(rng: np.random.Generator, dtype: type, shape: tuple[int, ...]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e9, -1e10, -65504.0, 1e-8, 5e-324, 1.7e308]
    with np.errstate(over="ignore"):
        for spread in (0, 1e-7, 1e-3, 1e-1, 3):
            right = (rng.normal(size=shape) * 10.0 ** rng.integers(-6, 6)).astype(dtype)
            yield right, (right * (1 + spread * rng.normal(size=shape))).astype(dtype)
        for _ in range(6):
            right, given = (rng.choice(special, size=shape).astype(dtype) for _ in range(2))
            yield right, given
            yield right, np.where(rng.random(shape) < 0.7, right, given).astype(dtype)
        yield right, np.zeros(shape, dtype)


def whole(rng: np.random.Generator, dtype: type, shape: tuple[int, ...]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    if dtype is np.bool_:
        low, high = 0, 1
    else:
        limits = ml_dtypes.iinfo(dtype)
        low, high = int(limits.min), int(limits.max)
    kind = np.uint64 if low == 0 else np.int64
    for _ in range(3):
        right = rng.integers(low, high, size=shape, dtype=kind, endpoint=True)
        other = rng.integers(low, high, size=shape, dtype=kind, endpoint=True)
        yield np.asarray(right).astype(dtype), np.asarray(right).astype(dtype)
        yield np.asarray(right).astype(dtype), np.where(rng.random(shape) < 0.7, right, other).astype(dtype)


def texts(rng: np.random.Generator, shape: tuple[int, ...]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    words = np.array(["", "a", "zwei – drei", "😀", '"\\\n'], object)
    for _ in range(3):
        yield rng.choice(words, size=shape), rng.choice(words, size=shape)


def pairs() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(0)
    for shape in SHAPES:
        for dtype in FLOATS:
            yield from floats(rng, dtype, shape)
        for dtype in EXACT:
            yield from whole(rng, dtype, shape)
        yield from texts(rng, shape)
    one = np.ones((2, 3), np.float32)
    yield one, one.astype(np.float16)
    yield one, one.reshape(3, 2)
    yield one, one.ravel()
    yield one.astype(np.int64), one.astype(np.int32)


def raw(array: np.ndarray) -> dict[str, object]:
    tensor = StoredTensor.from_array(np.asarray(array))
    kind = {"float": "float32", "double": "float64"}.get(tensor.dtype_name, tensor.dtype_name)
    data = base64.b64encode(bytes(tensor.blob.view())).decode()
    return {"name": "y", "type": kind, "dims": list(tensor.shape), "base64": data}


COMPARE = """async (given) => {
  const { compare } = await import('./comparison.js');
  const { fromBase64, halves } = await import('./values.js');
  const tensor = ({ base64, ...rest }) => ({ ...rest, bytes: fromBase64(base64) });
  if (!given.native) delete globalThis.Float16Array; // as in a browser that lacks it
  return given.pairs.map(([right, other, which]) => {
    const tolerance = given.tolerances[which];
    const { marks, expected, actual, at, ...found } = compare(tensor(right), tensor(other), tolerance);
    return found;
  });
}"""


@pytest.mark.parametrize("native", [True, False], ids=["Float16Array", "no Float16Array"])
def test_every_type_is_compared_as_the_tool_does(opened: Callable[..., Opened], served: Served, native: bool) -> None:
    folder = resources.files("onnxreduce.emit") / "page"
    for name in ("comparison.js", "distance.js", "values.js"):
        served.put((folder / name).read_text("utf-8"), name)
    page = opened(served.put("<!doctype html><title>blank</title>", "blank.html")).page
    cases = [(right, given, number % len(TOLERANCES)) for number, (right, given) in enumerate(pairs())]
    expected = [
        measured(Verdict(Outcome.FAILS, None, [compare("y", right, given, TOLERANCES[at])]))["differences"][0]
        for right, given, at in cases
    ]
    asked = {
        "native": native,
        "pairs": [[raw(right), raw(given), at] for right, given, at in cases],
        "tolerances": [each.to_json() for each in TOLERANCES],
    }
    found = page.evaluate(COMPARE, asked)
    assert len(found) == len(expected) > 500
    kinds = {each["kind"] for each in expected}
    assert kinds == {None, "numeric mismatch", "NaN or Inf", "all zeros", "wrong dtype", "wrong shape"}
    for (right, given, _), mine, tools in zip(cases, found, expected, strict=True):
        tools = {key: value for key, value in tools.items() if key not in ("samples", "share")}
        if tools["relative"] is None:  # what the page is told is JSON, which has no infinity
            tools["relative"] = float("inf")
        mine |= {key: float(mine[key]) for key in ("absolute", "relative")}
        similar = tools.pop("cosine")
        assert mine.pop("cosine") == (None if similar is None else pytest.approx(similar, abs=1e-9)), (right, given)
        assert mine == tools, (right, given)
