"""Write a SmolVLA-shaped ONNX model with random weights, and inputs to run it on.

SmolVLA (the robot policy of LeRobot) puts a vision tower and a connector before a small language model. This file
writes the part that fills the policy's key/value cache, with the nodes and the node order of a PyTorch export, in
opset 18; only the widths are cut down, so that all of it is a few megabytes::

    image0..2 ─► patch Conv ─► 12 layers of attention and GELU ─► connector ─┐
    lang_tokens ─► Gather ───────────────────────────────────────────────────┼─► 16 layers of RMSNorm, rotary attention
    state ─► Gemm ───────────────────────────────────────────────────────────┘   and SwiGLU ─► hidden, key_i, value_i
    lang_masks ─► attention mask, and CumSum ─► Sub ─► Unsqueeze ─► Cast ─► Div ─► Sin, Cos: the rotary angles

Nothing in it is made to fail: it is a model of the kind that onnxruntime-web's JavaScript WebGPU provider
computes wrongly (onnxruntime issue 32134), large enough that nobody would look for the reason by hand.

    python examples/smolvla_model.py -o smolvla.onnx        # also writes smolvla.npz
"""

import argparse
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

# The sizes of the published model stand behind those used here.
IMAGES = 3
IMAGE_SIZE = 64  # 512
PATCH_SIZE = 16  # 16
PATCHES = (IMAGE_SIZE // PATCH_SIZE) ** 2  # 1,024
SHUFFLE = 4  # 4: the connector folds 4 x 4 patches into one token
VISION_LAYERS = 12  # 12
VISION_WIDTH = 48  # 768
VISION_HEADS = 3  # 12
VISION_MLP = 4 * VISION_WIDTH

TEXT_LAYERS = 16  # 16
TEXT_WIDTH = 64  # 960
QUERY_HEADS = 3  # 15
KEY_HEADS = 1  # 5
HEAD_SIZE = 64  # 64
TEXT_MLP = 160  # 2,560
VOCABULARY = 512  # 49,280

PROMPT = 48  # 48: tokens of language, padding included
IMAGE_TOKENS = PATCHES // SHUFFLE**2
SEQUENCE = IMAGES * IMAGE_TOKENS + PROMPT + 1  # images, language, robot state
STATE = 32  # 32

Array = np.ndarray[Any, np.dtype[Any]]


class GraphWriter:
    """Collects nodes in file order, and makes random weights and constants on demand."""

    def __init__(self, seed: int) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: dict[str, onnx.TensorProto] = {}
        self._random = np.random.default_rng(seed)
        self._counts: Counter[str] = Counter()
        self._shared: dict[str, Any] = {}

    def op(self, op_type: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        """Append a node with one output, and return the output's name."""
        return self._append(op_type, inputs, [name or self._fresh(op_type)], attributes)[0]

    def split(self, value: str, axis: int) -> tuple[str, str]:
        """Append the Split of a value into halves."""
        first, second = self._append(
            "Split", [value], [self._fresh("split"), self._fresh("split")], {"axis": axis, "num_outputs": 2}
        )
        return first, second

    def weight(self, name: str, *shape: int, mean: float = 0.0, deviation: float = 0.1) -> str:
        """Name a weight of normal random numbers, made at its first use."""
        if name not in self.initializers:
            values = mean + deviation * self._random.standard_normal(shape)
            self._initialize(name, values.astype(np.float32))
        return name

    def constant(self, name: str, value: Any, dtype: type = np.float32) -> str:
        """Name a constant, made at its first use; one name always means the same value."""
        if name not in self.initializers:
            self._initialize(name, np.asarray(value, dtype=dtype))
        return name

    def shape(self, *sizes: int) -> str:
        """Name the constant that Reshape and Expand want as their target shape."""
        return self.constant("shape_" + "x".join(map(str, sizes)), sizes, np.int64)

    def axes(self, *axes: int) -> str:
        """Name the constant that Unsqueeze and ReduceMean want as their axes."""
        return self.constant("axes_" + "_".join(map(str, axes)).replace("-", "minus_"), axes, np.int64)

    def once(self, key: str, make: Callable[[], Any]) -> Any:
        """Write something where it is first used, and share it from then on, as an exporter does."""
        if key not in self._shared:
            self._shared[key] = make()
        return self._shared[key]

    def _fresh(self, stem: str) -> str:
        stem = stem.lower()
        self._counts[stem] += 1
        return f"{stem}_{self._counts[stem]}"

    def _append(self, op_type: str, inputs: Any, outputs: list[str], attributes: dict[str, Any]) -> list[str]:
        self.nodes.append(helper.make_node(op_type, inputs, outputs, name=f"node_{outputs[0]}", **attributes))
        return outputs

    def _initialize(self, name: str, values: Array) -> None:
        self.initializers[name] = numpy_helper.from_array(values, name)


def linear(w: GraphWriter, x: str, name: str, inputs: int, outputs: int, bias: bool = True) -> str:
    """PyTorch's Linear: the weight lies transposed in the file, and all uses share one Transpose."""
    weight = w.weight(f"{name}.weight", outputs, inputs, deviation=inputs**-0.5)
    product = w.op("MatMul", x, w.once(weight, lambda: w.op("Transpose", weight, perm=[1, 0])))
    return w.op("Add", product, w.weight(f"{name}.bias", outputs)) if bias else product


def project(w: GraphWriter, x: str, name: str, inputs: int, outputs: int) -> str:
    """A Linear without bias whose transpose the exporter has folded into the weight."""
    return w.op("MatMul", x, w.weight(f"{name}.weight", inputs, outputs, deviation=inputs**-0.5))


# Vision ---------------------------------------------------------------------------------------------------------------


def layer_norm(w: GraphWriter, x: str, name: str) -> str:
    """Normalise over the last axis, with scale and bias."""
    scale, bias = w.weight(f"{name}.weight", VISION_WIDTH, mean=1.0), w.weight(f"{name}.bias", VISION_WIDTH)
    return w.op("LayerNormalization", x, scale, bias, axis=-1, epsilon=1e-6, stash_type=1)


def gelu(w: GraphWriter, x: str) -> str:
    """The tanh form of GELU, spelled out as the exporter does: x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x³)))."""
    cube = w.op("Mul", w.constant("gelu_cubic", 0.044715), w.op("Pow", x, w.constant("three", 3.0)))
    inner = w.op("Mul", w.constant("gelu_scale", math.sqrt(2.0 / math.pi)), w.op("Add", x, cube))
    gate = w.op("Add", w.op("Tanh", inner), w.constant("one", 1.0))
    return w.op("Mul", x, w.op("Mul", w.constant("half", 0.5), gate))


def vision_attention(w: GraphWriter, x: str, name: str) -> str:
    """Attention of every patch to every patch."""
    size = VISION_WIDTH // VISION_HEADS
    by_head = w.shape(1, PATCHES, VISION_HEADS, size)
    query, key, value = (linear(w, x, f"{name}.{part}_proj", VISION_WIDTH, VISION_WIDTH) for part in "qkv")
    query = w.op("Transpose", w.op("Reshape", query, by_head), perm=[0, 2, 1, 3])
    key = w.op("Reshape", key, by_head)
    value = w.op("Transpose", w.op("Reshape", value, by_head), perm=[0, 2, 1, 3])
    scores = w.op("MatMul", query, w.op("Transpose", key, perm=[0, 2, 3, 1]))
    scores = w.op("Softmax", w.op("Mul", scores, w.constant("vision_scale", size**-0.5)), axis=-1)
    mixed = w.op("Transpose", w.op("MatMul", scores, value), perm=[0, 2, 1, 3])
    mixed = w.op("Reshape", mixed, w.shape(1, PATCHES, VISION_WIDTH))
    return linear(w, mixed, f"{name}.out_proj", VISION_WIDTH, VISION_WIDTH)


def vision_layer(w: GraphWriter, x: str, name: str) -> str:
    """One layer of the vision tower."""
    x = w.op("Add", x, vision_attention(w, layer_norm(w, x, f"{name}.layer_norm1"), f"{name}.self_attn"))
    inner = linear(w, layer_norm(w, x, f"{name}.layer_norm2"), f"{name}.mlp.fc1", VISION_WIDTH, VISION_MLP)
    return w.op("Add", x, linear(w, gelu(w, inner), f"{name}.mlp.fc2", VISION_MLP, VISION_WIDTH))


def connector(w: GraphWriter, x: str) -> str:
    """Fold each square of patches into one token of the language model's width (a pixel shuffle, then a Linear)."""
    side = IMAGE_SIZE // PATCH_SIZE
    folded, wide = side // SHUFFLE, VISION_WIDTH * SHUFFLE
    x = w.op("Reshape", x, w.shape(1, side, folded, wide))
    x = w.op("Transpose", x, perm=[0, 2, 1, 3])
    x = w.op("Reshape", x, w.shape(1, folded, folded, wide * SHUFFLE))
    x = w.op("Transpose", x, perm=[0, 2, 1, 3])
    x = w.op("Reshape", x, w.shape(1, IMAGE_TOKENS, wide * SHUFFLE))
    x = linear(w, x, "connector.proj", wide * SHUFFLE, TEXT_WIDTH, bias=False)
    return embedding_scale(w, x)


def vision_tower(w: GraphWriter, image: str) -> str:
    """From an image to its tokens; every image goes through the same weights."""
    kernel = w.weight("vision.patch.weight", VISION_WIDTH, 3, PATCH_SIZE, PATCH_SIZE, deviation=0.05)
    patch = [PATCH_SIZE, PATCH_SIZE]
    x = w.op("Conv", image, kernel, kernel_shape=patch, strides=patch, dilations=[1, 1], group=1, pads=[0, 0, 0, 0])
    x = w.op("Transpose", w.op("Reshape", x, w.shape(1, VISION_WIDTH, PATCHES)), perm=[0, 2, 1])
    x = w.op("Add", x, w.weight("vision.position", 1, PATCHES, VISION_WIDTH))
    for layer in range(VISION_LAYERS):
        x = vision_layer(w, x, f"vision.layers.{layer}")
    return connector(w, layer_norm(w, x, "vision.post_layernorm"))


def embedding_scale(w: GraphWriter, x: str) -> str:
    """Bring tokens to the size that the language model expects."""
    return w.op("Mul", x, w.constant("embedding_scale", math.sqrt(TEXT_WIDTH)))


# Language -------------------------------------------------------------------------------------------------------------


def prefix(w: GraphWriter) -> str:
    """What the language model reads: tokens of the images, of the prompt, and of the robot's state."""
    images = [vision_tower(w, f"image{number}") for number in range(IMAGES)]
    table = w.weight("text.embed_tokens", VOCABULARY, TEXT_WIDTH)
    words = embedding_scale(w, w.op("Gather", table, "lang_tokens", axis=0))
    weight = w.weight("state_proj.weight", TEXT_WIDTH, STATE, deviation=STATE**-0.5)
    state = w.op("Gemm", "state", weight, w.weight("state_proj.bias", TEXT_WIDTH), transB=1)
    return w.op("Concat", *images, words, w.op("Unsqueeze", state, w.axes(1)), axis=1)


def attention_mask(w: GraphWriter, present: str) -> str:
    """Pairs of tokens, both present; the state sees everything and is seen by itself alone."""
    both = w.op("And", w.op("Unsqueeze", present, w.axes(1)), w.op("Unsqueeze", present, w.axes(2)))
    block = np.arange(SEQUENCE) == SEQUENCE - 1
    return w.op("And", w.constant("block_mask", [block[None, :] <= block[:, None]], np.bool_), both)


def positions(w: GraphWriter, present: str) -> str:
    """The place of each token among those present, counted from 0 in int64."""
    count = w.op("CumSum", w.op("Cast", present, to=TensorProto.INT64), w.constant("one_int", 1, np.int64))
    return w.op("Sub", count, w.constant("one_int", 1, np.int64))


def rms_norm(w: GraphWriter, x: str, name: str, result: str = "") -> str:
    """Divide by the root of the mean square over the last axis, then scale."""
    mean = w.op("ReduceMean", w.op("Pow", x, w.constant("two", 2.0)), w.axes(-1), keepdims=1)
    root = w.op("Sqrt", w.op("Add", mean, w.constant("norm_epsilon", 1e-5)))
    scaled = w.op("Mul", x, w.op("Reciprocal", root))
    return w.op("Mul", w.weight(f"{name}.weight", TEXT_WIDTH, mean=1.0), scaled, name=result)


def rotary_angles(w: GraphWriter, position: str) -> tuple[str, str]:
    """Sine and cosine of each position divided by each of the geometric timescales."""
    half = HEAD_SIZE // 2
    timescale = 10_000.0 ** (np.arange(half).reshape(1, 1, half) / half)
    place = w.op("Cast", w.op("Unsqueeze", position, w.axes(2)), to=TensorProto.FLOAT)
    angle = w.op("Unsqueeze", w.op("Div", place, w.constant("timescale", timescale)), w.axes(2))
    return w.op("Sin", angle), w.op("Cos", angle)


def rotate(w: GraphWriter, x: str, heads: int, angles: tuple[str, str]) -> str:
    """Turn the two halves of every head by the angles; the result has its axes as [HEAD_SIZE, SEQUENCE, heads, 1].

    The original assigns the halves to slices of an empty tensor, which the exporter writes as one ScatterND each, over
    a tensor whose last axis has been moved to the front.
    """
    half, (sin, cos) = HEAD_SIZE // 2, angles
    first, second = w.split(x, axis=3)
    empty = w.constant(f"empty_{heads}", np.zeros((HEAD_SIZE, SEQUENCE, heads, 1)))

    low = w.op("Sub", w.op("Mul", first, cos), w.op("Mul", second, sin))
    low = w.op("Transpose", low, perm=[3, 1, 2, 0])
    low_rows = w.constant("low_rows", np.arange(half).reshape(half, 1), np.int64)
    filled = w.op("ScatterND", empty, low_rows, low)

    high = w.op("Add", w.op("Mul", second, cos), w.op("Mul", first, sin))
    high = w.op("Transpose", high, perm=[3, 1, 2, 0])
    high_rows = w.constant("high_rows", np.arange(half, HEAD_SIZE).reshape(half, 1), np.int64)
    return w.op("ScatterND", w.op("Identity", filled), high_rows, high)


def repeat_heads(w: GraphWriter, x: str) -> str:
    """Give every query head its key or value head (grouped queries)."""
    group = QUERY_HEADS // KEY_HEADS
    x = w.op("Expand", w.op("Unsqueeze", x, w.axes(3)), w.shape(1, SEQUENCE, KEY_HEADS, group, HEAD_SIZE))
    return w.op("Reshape", x, w.shape(1, SEQUENCE, QUERY_HEADS, HEAD_SIZE))


def text_attention(w: GraphWriter, x: str, layer: int, position: str, mask: str) -> str:
    """Rotary attention with grouped heads; keys and values are outputs of the model."""
    name, width = f"text.layers.{layer}.self_attn", QUERY_HEADS * HEAD_SIZE
    query = project(w, x, f"{name}.q_proj", TEXT_WIDTH, width)
    query = w.op("Reshape", query, w.shape(1, SEQUENCE, -1, HEAD_SIZE))
    key = project(w, x, f"{name}.k_proj", TEXT_WIDTH, KEY_HEADS * HEAD_SIZE)
    key = w.op("Reshape", key, w.shape(1, SEQUENCE, -1, HEAD_SIZE))
    value = project(w, x, f"{name}.v_proj", TEXT_WIDTH, KEY_HEADS * HEAD_SIZE)
    value = w.op("Reshape", value, w.shape(1, SEQUENCE, -1, HEAD_SIZE), name=f"value_{layer}")

    angles = w.once("angles", lambda: rotary_angles(w, position))
    query = rotate(w, query, QUERY_HEADS, angles)
    key = w.op("Transpose", rotate(w, key, KEY_HEADS, angles), perm=[3, 1, 2, 0], name=f"key_{layer}")

    key, value = repeat_heads(w, key), repeat_heads(w, value)
    key = w.op("Transpose", key, perm=[0, 2, 3, 1])
    scores = w.op("MatMul", w.op("Transpose", query, perm=[3, 2, 1, 0]), key)
    scores = w.op("Mul", scores, w.constant("text_scale", HEAD_SIZE**-0.5))
    mask = w.once("mask", lambda: w.op("Unsqueeze", mask, w.axes(1)))
    scores = w.op("Where", mask, scores, w.constant("lowest", np.finfo(np.float32).min))
    scores = w.op("Softmax", scores, axis=-1)
    mixed = w.op("Transpose", w.op("MatMul", scores, w.op("Transpose", value, perm=[0, 2, 1, 3])), perm=[0, 2, 1, 3])
    mixed = w.op("Reshape", mixed, w.shape(1, SEQUENCE, width))
    return project(w, mixed, f"{name}.o_proj", width, TEXT_WIDTH)


def text_mlp(w: GraphWriter, x: str, name: str) -> str:
    """SwiGLU: a gate of x·sigmoid(x), times a projection, projected back."""
    gate = project(w, x, f"{name}.gate_proj", TEXT_WIDTH, TEXT_MLP)
    gate = w.op("Mul", gate, w.op("Sigmoid", gate))
    up = project(w, x, f"{name}.up_proj", TEXT_WIDTH, TEXT_MLP)
    return project(w, w.op("Mul", gate, up), f"{name}.down_proj", TEXT_MLP, TEXT_WIDTH)


def text_layer(w: GraphWriter, x: str, layer: int, position: str, mask: str) -> str:
    """One layer of the language model."""
    name = f"text.layers.{layer}"
    x = w.op("Add", text_attention(w, rms_norm(w, x, f"{name}.input_layernorm"), layer, position, mask), x)
    return w.op("Add", text_mlp(w, rms_norm(w, x, f"{name}.post_attention_layernorm"), f"{name}.mlp"), x)


# The model ------------------------------------------------------------------------------------------------------------


def make_inputs(seed: int) -> dict[str, Array]:
    """Images of noise, random words with five places of padding at the end, and a random robot state."""
    random = np.random.default_rng(seed)
    inputs: dict[str, Array] = {
        f"image{number}": random.uniform(-1, 1, (1, 3, IMAGE_SIZE, IMAGE_SIZE)).astype(np.float32)
        for number in range(IMAGES)
    }
    inputs["lang_tokens"] = random.integers(0, VOCABULARY, (1, PROMPT))
    inputs["lang_masks"] = (np.arange(PROMPT) < PROMPT - 5).astype(np.int64).reshape(1, PROMPT)
    inputs["state"] = random.standard_normal((1, STATE)).astype(np.float32)
    return inputs


def build(seed: int = 0, layers: int = TEXT_LAYERS) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """Build the model, with this many layers in the language model, and inputs to run it on."""
    w = GraphWriter(seed)
    words_present = w.op("Greater", "lang_masks", w.constant("zero_int", 0, np.int64))
    x = prefix(w)
    yes = w.constant("present", [[True]], np.bool_)
    image_present = [w.constant("present_image", [[True] * IMAGE_TOKENS], np.bool_)] * IMAGES
    present = w.op("Concat", *image_present, words_present, yes, axis=1)
    mask, position = attention_mask(w, present), positions(w, present)
    for layer in range(layers):
        x = text_layer(w, x, layer, position, mask)
    rms_norm(w, x, "text.norm", result="hidden")

    inputs = make_inputs(seed)
    outputs = [helper.make_tensor_value_info("hidden", TensorProto.FLOAT, [1, SEQUENCE, TEXT_WIDTH])]
    for layer in range(layers):
        for part in ("key", "value"):
            shape = [1, SEQUENCE, KEY_HEADS, HEAD_SIZE]
            outputs.append(helper.make_tensor_value_info(f"{part}_{layer}", TensorProto.FLOAT, shape))
    graph = helper.make_graph(
        w.nodes,
        "smolvla",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in inputs.items()
        ],
        outputs,
        list(w.initializers.values()),
    )
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 18)])
    model.producer_name = "smolvla_model.py"
    model = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    onnx.checker.check_model(model, full_check=True)
    return model, inputs


def main() -> None:
    """Write the model and, beside it, its inputs."""
    parser = argparse.ArgumentParser(description="Write a SmolVLA-shaped ONNX model and its inputs (.npz).")
    parser.add_argument("-o", "--output", type=Path, default=Path("smolvla.onnx"), help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="of the weights and inputs (default: %(default)s)")
    parser.add_argument("--layers", type=int, default=TEXT_LAYERS, help="of the language model (default: %(default)s)")
    arguments = parser.parse_args()
    model, inputs = build(arguments.seed, arguments.layers)
    onnx.save(model, arguments.output)
    np.savez(arguments.output.with_suffix(".npz"), **inputs)  # type: ignore[arg-type]
    print(f"{arguments.output}: {len(model.graph.node):,} nodes, {arguments.output.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
