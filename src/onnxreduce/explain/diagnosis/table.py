"""The families of hypotheses, in the order in which they are believed where they explain an output equally well."""

from __future__ import annotations

from onnxreduce.explain.diagnosis.finding import DiagnosisKind, Family
from onnxreduce.explain.diagnosis.other_values import other_values
from onnxreduce.explain.diagnosis.overwritten import overwritten
from onnxreduce.explain.diagnosis.ranges import ranges
from onnxreduce.explain.diagnosis.rearranged import rearranged
from onnxreduce.explain.diagnosis.rounded import rounded
from onnxreduce.explain.diagnosis.scaled import scaled
from onnxreduce.explain.diagnosis.tails import tails
from onnxreduce.explain.diagnosis.zeros import zeros

FAMILIES: dict[DiagnosisKind, Family] = {
    DiagnosisKind.ZEROS: zeros,
    DiagnosisKind.OTHER_VALUE: other_values,
    DiagnosisKind.OVERWRITTEN_INPUT: overwritten,
    DiagnosisKind.RANGE: ranges,
    DiagnosisKind.ROUNDED: rounded,
    DiagnosisKind.SCALED: scaled,
    DiagnosisKind.REARRANGED: rearranged,
    DiagnosisKind.TAIL: tails,
}
