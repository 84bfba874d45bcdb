"""Checks ONNX files and runs them in onnxruntime.

    python run_onnx.py [FOLDER ...]

Each folder holds model.onnx and input.bin (float32, little-endian, any number of samples); output.bin is written beside
them. Standard output has one line of JSON for each folder: the shapes of input and output, the operations, the opset.
"""

import json
import pathlib
import sys

import numpy as np
import onnx
import onnxruntime


def shape_of(value):
    return [axis.dim_param or axis.dim_value for axis in value.type.tensor_type.shape.dim]


def session(path, level):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def run(folder):
    path = folder / "model.onnx"
    written = path.read_bytes()
    model = onnx.load_model_from_string(written)
    # The types of all values are in the file, so this also compares them with what the operations make.
    onnx.checker.check_model(model, full_check=True)
    assert model.SerializeToString(deterministic=True) == written, "the format's library writes other bytes"

    levels = onnxruntime.GraphOptimizationLevel
    plain, fast = (session(str(path), level) for level in (levels.ORT_DISABLE_ALL, levels.ORT_ENABLE_ALL))
    (given,), (made,) = model.graph.input, model.graph.output
    shape = shape_of(given)
    assert shape[0] == "batch" and shape_of(made)[0] == "batch", "the batch is not free"
    images = np.fromfile(folder / "input.bin", dtype="<f4").reshape([-1, *shape[1:]])
    (output,) = plain.run([made.name], {given.name: images})
    assert list(output.shape) == [len(images), *shape_of(made)[1:]], output.shape
    largest = np.abs(output).max()
    (optimised,) = fast.run([made.name], {given.name: images})
    assert np.abs(optimised - output).max() <= 1e-4 * largest, "what onnxruntime optimises differs"
    (first,) = plain.run([made.name], {given.name: images[:1]})
    assert np.abs(first - output[:1]).max() <= 1e-4 * largest, "a sample depends on its batch"
    output.astype("<f4").tofile(folder / "output.bin")
    return {
        "input": [given.name, *shape],
        "output": [made.name, *shape_of(made)],
        "operations": sorted({node.op_type for node in model.graph.node}),
        "opset": model.opset_import[0].version,
    }


for argument in sys.argv[1:]:
    print(json.dumps(run(pathlib.Path(argument))))
