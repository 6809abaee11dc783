"""Input files from anyone: what is read, and what is refused before it costs memory or runs code."""

from __future__ import annotations

import contextlib
import io
import pickle
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from onnx import SequenceProto, TensorProto, helper, numpy_helper

from onnxreduce.errors import BadInputError
from onnxreduce.graph.input_files import feed_names, read_inputs, read_npy
from onnxreduce.graph.tensors import StoredTensor

X = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 2])


def npz(path: Path, **entries: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(f"{name}.npy", content)
    return path


def npy(descr: str, shape: tuple[int, ...], content: bytes = b"") -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})
    return file.getvalue() + content


def write_folder(folder: Path, *protos: TensorProto) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for position, proto in enumerate(protos):
        (folder / f"input_{position}.pb").write_bytes(proto.SerializeToString())
    return folder


class Bomb:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return exec, ("raise SystemExit('unpickled')",)


@given(
    st.dictionaries(
        st.text(st.characters(exclude_characters="\x00\\", codec="utf-8"), min_size=1, max_size=8),
        npst.arrays(
            st.sampled_from([np.float32, np.int64, np.bool_, np.float16, np.uint8, np.complex64, ">f4", "<U3"]),
            npst.array_shapes(min_dims=0, min_side=0, max_side=4),
        ),
        max_size=4,
    )
)
@settings(deadline=None)
def test_what_numpy_saves_is_read(tmp_path_factory: pytest.TempPathFactory, arrays: dict[str, np.ndarray]) -> None:
    path = tmp_path_factory.mktemp("npz") / "inputs.npz"
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            content = io.BytesIO()
            np.save(content, np.asfortranarray(array) if array.ndim > 1 else array)
            archive.writestr(f"{name}.npy", content.getvalue())
    path.write_bytes(file.getvalue())
    found = read_inputs(path)
    assert set(found) == set(arrays)
    for name, array in arrays.items():
        assert found[name].shape == array.shape
        same = found[name].array == array
        assert np.all(same | (array != array))


def test_raw_types_take_the_type_of_the_input(tmp_path: Path) -> None:
    arrays = {"x": np.linspace(-1, 1, 4).astype(ml_dtypes.bfloat16), "y": np.array([-8, 7], ml_dtypes.int4)}
    np.savez(tmp_path / "named.npz", **arrays)
    np.savez(tmp_path / "positional.npz", *arrays.values())
    wanted = [
        helper.make_tensor_value_info("x", TensorProto.BFLOAT16, [4]),
        helper.make_tensor_value_info("y", TensorProto.INT4, [2]),
    ]
    named, positional = (read_inputs(tmp_path / f"{name}.npz", wanted) for name in ("named", "positional"))
    assert list(named) == ["x", "y"] and list(positional) == [0, 1]
    for tensors in (named, positional):
        for tensor, array in zip(tensors.values(), arrays.values(), strict=True):
            assert tensor.blob.digest == StoredTensor.from_array(array).blob.digest
    with pytest.raises(BadInputError, match="raw 2-byte values, and no model input tells"):
        read_inputs(tmp_path / "named.npz")
    with pytest.raises(BadInputError, match="raw 2-byte values"):
        read_inputs(tmp_path / "named.npz", [X])


def test_a_folder_is_read_by_name_and_by_position(tmp_path: Path) -> None:
    ones, twos = np.ones((2, 2), np.float32), np.full((2, 2), 2, np.float32)
    other = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 2])
    folder = write_folder(tmp_path / "a", numpy_helper.from_array(ones, "y"), numpy_helper.from_array(twos, "x"))
    assert list(read_inputs(folder)) == ["y", "x"] == list(read_inputs(folder, [X, other]))
    folder = write_folder(tmp_path / "b", numpy_helper.from_array(ones), numpy_helper.from_array(twos, "unknown"))
    assert list(read_inputs(folder, [X, other])) == [0, 1]
    assert list(read_inputs(folder)) == [0, "unknown"]
    write_folder(tmp_path / "case" / "test_data_set_0", helper.make_tensor("x", TensorProto.FLOAT16, [1], [1.5]))
    assert read_inputs(tmp_path / "case")["x"].array.tolist() == [1.5]
    many = write_folder(tmp_path / "many", *(numpy_helper.from_array(np.array(n)) for n in range(12)))
    assert [int(tensor.array) for tensor in read_inputs(many).values()] == list(range(12))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (npy("<f4", (10**9, 10**9)), "declares 4000000000000000000 bytes"),
        (npy("<f4", (5_000_000,), b"\0" * 20_000_000), "more than input 'x' can need"),
        (npy("<f4", (4,), b"\0" * 15), "truncated: 15 of 16 bytes"),
        (npy("|O", (1,), pickle.dumps(Bomb())), "pickled Python objects, which are never loaded"),
        (pickle.dumps(Bomb()), "not an array in .npy format"),
        (npy("<U0", (10**12,)), "is not a tensor"),
        (npy("<M8[s]", (1,), b"\0" * 8), "cannot be an ONNX tensor"),
        (npy("<f4", (-1,)), "is not a tensor"),
        (b"", "not an array in .npy format"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + b"(" * 100, "not an array in .npy format"),
        (b"\x93NUMPY\x01\x00\x40\x1f" + b"(" * 8000, "not an array in .npy format"),
    ],
)
def test_bad_arrays_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(BadInputError, match=message) as caught:
        read_inputs(npz(tmp_path / "a.npz", x=content), [X])
    assert "\n" not in str(caught.value)
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(BadInputError):
        read_npy(tmp_path / "a.npy", X)


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    path = npz(tmp_path / "bomb.npz", x=npy("<f4", (2, 2), b"\0" * 16) + b"\0" * 100_000_000)
    assert path.stat().st_size < 200_000
    assert read_inputs(path, [X])["x"].blob.length == 16
    with pytest.raises(BadInputError, match="no input 'more'"):
        read_inputs(npz(tmp_path / "many.npz", x=npy("<f4", (1,), b"1234"), more=npy("<f4", (1,), b"1234")), [X])
    path = npz(tmp_path / "bomb2.npz", x=npy("<U1", (30_000_000,), b"\0" * 120_000_000))
    with pytest.raises(BadInputError, match="declares 120000000 bytes"):
        read_inputs(path)


@given(st.binary(max_size=200))
@settings(deadline=None)
def test_no_bytes_lead_to_another_error(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    folder = tmp_path_factory.mktemp("bad")
    (folder / "a.npz").write_bytes(content)
    npz(folder / "b.npz", x=b"\x93NUMPY\x01\x00" + content)
    (folder / "input_0.pb").write_bytes(content)
    for path in (folder / "a.npz", folder / "b.npz", folder):
        with contextlib.suppress(BadInputError):
            read_inputs(path, [X])


def test_damaged_archives_are_refused(tmp_path: Path) -> None:
    whole = npz(tmp_path / "a.npz", x=npy("<f4", (2, 2), bytes(range(16)))).read_bytes()
    for cut in range(0, len(whole), 7):
        (tmp_path / "cut.npz").write_bytes(whole[:cut])
        with pytest.raises(BadInputError):
            read_inputs(tmp_path / "cut.npz", [X])
    flipped = bytearray(whole)
    flipped[60] ^= 0xFF
    (tmp_path / "flipped.npz").write_bytes(flipped)
    with pytest.raises(BadInputError):
        read_inputs(tmp_path / "flipped.npz", [X])


@pytest.mark.parametrize(
    ("proto", "message"),
    [
        (TensorProto(data_type=1, dims=[2], raw_data=b"\0" * 7), r"shape \[2\] needs 8 bytes, but there are 7"),
        (TensorProto(data_type=1, dims=[10**12], raw_data=b""), "needs 4000000000000 bytes, but there are 0"),
        (TensorProto(data_type=1, dims=[2**62, 2**62], float_data=[1.0]), "does not fit its shape"),
        (TensorProto(data_type=8, dims=[10**12]), "needs 1000000000000 strings, but there are 0"),
        (TensorProto(data_type=1, dims=[-1], raw_data=b""), "negative dimension"),
        (TensorProto(data_type=0), "is not a tensor"),
        (TensorProto(data_type=999, dims=[1], raw_data=b"1"), "is not a tensor"),
        (TensorProto(data_type=22, dims=[3], raw_data=b"1"), "needs 2 bytes, but there are 1"),
        (TensorProto(data_type=1, dims=[1], data_location=TensorProto.EXTERNAL), "content in another file"),
    ],
)
def test_bad_protos_are_refused(tmp_path: Path, proto: TensorProto, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        read_inputs(write_folder(tmp_path, proto))


def test_other_mistakes_are_told(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="no such file"):
        read_inputs(tmp_path / "none.npz".replace("npz", "txt"))
    with pytest.raises(BadInputError, match="cannot be read"):
        read_inputs(tmp_path / "none.npz")
    (tmp_path / "a.txt").write_text("")
    with pytest.raises(BadInputError, match=r"FILE.npz or from a folder with input_0.pb"):
        read_inputs(tmp_path / "a.txt")
    with pytest.raises(BadInputError, match=r"neither input_0\.pb"):
        read_inputs(tmp_path)
    same = numpy_helper.from_array(np.ones(1), "x")
    with pytest.raises(BadInputError, match="another file holds 'x' too"):
        read_inputs(write_folder(tmp_path / "twice", same, same))
    sequence = SequenceProto(elem_type=1, tensor_values=[same])
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "input_0.pb").write_bytes(sequence.SerializeToString())
    with pytest.raises(BadInputError, match="not a tensor, and only tensors are read"):
        read_inputs(tmp_path / "s", [helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, [1])])
    with pytest.raises(BadInputError):
        read_inputs(tmp_path / "s")


def test_order_of_feeds() -> None:
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "dxe"]
    weights = [numpy_helper.from_array(np.ones(1, np.float32), name) for name in "de"]
    model = helper.make_model(helper.make_graph([], "g", infos, [], weights))
    assert feed_names(model, ["e", "x", "d"]) == ["x", "d", "e"]
    with pytest.raises(ValueError, match="no graph input"):
        feed_names(model, ["q"])
