"""Which messages say that memory ran out; all of them are what a runtime, a system or a library really says."""

import pytest

from onnxreduce.runtimes.memory import says_no_memory

ARENA = (
    "[ONNXRuntimeError] : 1 : FAIL : Non-zero status code returned while running Expand node. Name:'NAME' Status "
    "Message: /onnxruntime_src/onnxruntime/core/framework/bfc_arena.cc:360 void* "
    "onnxruntime::BFCArena::AllocateRawInternal(size_t, bool, onnxruntime::Stream*) REASON"
)


@pytest.mark.parametrize(
    "message",
    [
        ARENA.replace("REASON", "Failed to allocate memory for requested buffer of size 4398046511104"),
        "std::bad_alloc",
        "bad allocation",
        "failed to call OrtRun(). ERROR_CODE: 6, ERROR_MESSAGE: std::bad_alloc",
        "C++ exception of class St9bad_alloc without a text",
        "MemoryError: Unable to allocate 4.00 TiB for an array with shape (1099511627776,) and data type float32",
        "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 1.0 GiB",
        "Can't create a session. failed to allocate a buffer of size 2147483648.",
        "RangeError: Array buffer allocation failed",
        "RangeError: WebAssembly.Memory.grow(): Maximum memory size exceeded",
        "RangeError: WebAssembly.Memory(): could not allocate memory",
        "RuntimeError: Aborted(OOM). Build with -sASSERTIONS for more info.",
        "OSError: [Errno 12] Cannot allocate memory",
        "CUDA failure 2: out of memory ; GPU=0 ; hostname=x ; expr=cudaMalloc((void**)&p, size);",
        "RuntimeError: Out of memory: wasm memory",
        "VK_ERROR_OUT_OF_DEVICE_MEMORY",
        "GPUOutOfMemoryError: Not enough memory left.",
    ],
)
def test_memory_ran_out(message: str) -> None:
    assert says_no_memory(message)


@pytest.mark.parametrize(
    "message",
    [
        "",
        "RuntimeError: memory access out of bounds",
        "RuntimeError: unreachable",
        "Integer overflow",
        "[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Tensor shape is too large",
        "WebGPU validation failed. Buffer size (3145728000) exceeds the max buffer size limit (1073741824).",
        "indices element out of data bounds, idx=9 must be within the inclusive range [-3,2]",
        "RangeError: Maximum call stack size exceeded",
        ARENA.replace("NAME", "out of memory").replace("REASON", "The input tensor cannot be reshaped"),
        'Kernel "[Expand] std::bad_alloc" failed. Error: no such kernel',
        "No Op registered for 'MemoryError' with domain_version of 13",
        "Load model from /tmp/out of memory/model.onnx failed:Protobuf parsing failed.",
        'This is an invalid model. In Node, ("out of memory", Relu, "", -1) : Error Unrecognized attribute',
        "Fatal error: com.example:Foo(-1) is not a registered function/op",
        "StdBad_allocator is an unknown operator",
    ],
)
def test_something_else_is_wrong(message: str) -> None:
    assert not says_no_memory(message)
