"""The table of passes, from cheap to dear: what `onnxreduce passes` prints and what a reduction runs."""

from __future__ import annotations

from onnxreduce.errors import BadInputError
from onnxreduce.reduction.passes import constants, control, dims, model, nodes, reorder, structure, values
from onnxreduce.reduction.rounds import Pass
from onnxreduce.reduction.shrink import KINDS_KEPT

PASSES = (
    Pass("dims", dims.dims, "lower equal dimensions together", "shape", dims.dims_boldly),
    Pass("rank", dims.rank, "drop axes of length 1", "shape", dims.rank_boldly),
    Pass(
        "weights",
        values.weights,
        "initializers become inputs, fills, counts, series or seeded values",
        "values",
        values.weights_boldly,
    ),
    Pass(
        "inputs",
        values.inputs,
        "input values become ones, zeros, counts or seeded values",
        "values",
        values.inputs_boldly,
    ),
    Pass("sparse", values.sparse, "all elements but those that matter become one value", "values"),
    Pass("dtypes", model.dtypes, "plainer element types", "dtype"),
    Pass("attributes", model.attributes, "drop attributes that equal their default", "", model.attributes_boldly),
    Pass("constants", constants.constants, "constant inputs as attributes, at an older opset", "opset"),
    Pass("opset", model.opset, "oldest opset and IR version that keep the fault", "opset", model.opset_boldly),
    Pass("names", model.names, "short names", "", model.names_boldly),
    Pass("simplify", structure.simplify, "replace operators by plainer ones", "operators"),
    Pass("control", control.control, "a branch or one iteration instead of If, Loop and Scan", structural=True),
    Pass("bodies", control.bodies, "less inside the bodies of If, Loop and Scan", structural=True),
    Pass(
        "reorder",
        reorder.reorder,
        "other orders of the same nodes, then delete again",
        "order",
        structural=True,
    ),
    Pass("bypass", structure.bypass, "let readers of a node read its inputs of the same type", structural=True),
    Pass("outputs", structure.outputs, "drop graph outputs, and what only they needed", structural=True),
    Pass("optional", structure.optional, "leave out inputs that operators do not ask for", structural=True),
    Pass("merge", structure.merge, "make one of two nodes in a row", structural=True),
    Pass(
        "nodes",
        nodes.nodes,
        "delete nodes; values still read become graph inputs",
        structural=True,
        deletes=True,
    ),
    Pass("fold", structure.fold, "replace a node by its value as an initializer", structural=True),
)


def chosen(only: str | None, skip: str | None) -> list[Pass]:
    """The passes named in `only` (all, when None) but for those in `skip`; comma lists. Raises BadInputError."""
    known = {one.name: one for one in PASSES}
    asked = _names(only, known) if only is not None else list(known)
    left_out = _names(skip, known) if skip else []
    return [known[name] for name in known if name in asked and name not in left_out]


def kept_kinds(text: str | None) -> list[str]:
    """The kinds of change in a comma list that must not happen. Raises BadInputError for an unknown one."""
    kinds = [kind.strip() for kind in (text or "").split(",") if kind.strip()]
    for kind in kinds:
        if kind not in KINDS_KEPT:
            raise BadInputError(f"--keep {kind!r} is not one of {', '.join(KINDS_KEPT)}")
    return kinds


def _names(text: str, known: dict[str, Pass]) -> list[str]:
    found = [name.strip() for name in text.split(",") if name.strip()]
    for name in found:
        if name not in known:
            raise BadInputError(f"unknown pass {name!r}; known: {', '.join(known)}")
    return found
