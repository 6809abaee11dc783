"""What was computed instead: each wrong output held against what known faults would leave in its place."""

from onnxreduce.explain.diagnosis.finding import Diagnosis, DiagnosisKind
from onnxreduce.explain.diagnosis.recompute import Recomputer
from onnxreduce.explain.diagnosis.try_all import Rerun, diagnose

__all__ = ["Diagnosis", "DiagnosisKind", "Recomputer", "Rerun", "diagnose"]
