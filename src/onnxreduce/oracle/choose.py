"""Which oracle a user means: a shipped name, a file, two targets, a command or a function; and its settings."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

from onnxreduce.errors import BadInputError
from onnxreduce.oracle.comparison import Tolerance
from onnxreduce.oracle.custom import CustomOracle, custom
from onnxreduce.oracle.signature import Expectation, Kind
from onnxreduce.oracle.spec import OracleSpec, find
from onnxreduce.runtimes.target import Target

CLASSES = {kind.name.lower().replace("_", "-"): kind for kind in Kind if kind is not Kind.INTERESTING}
"""Words for `--expect`."""


@dataclass(frozen=True)
class Settings:
    """What the command line changes about an oracle. Tolerances are a share of each output's scale, and absolute."""

    suspect: str | None = None
    reference: str | None = None
    rtol: float | None = None
    atol: float | None = None
    timeout: float | None = None
    expect: str | None = None
    match: str | None = None
    slower: float | None = None


def choose(text: str, settings: Settings | None = None) -> OracleSpec | CustomOracle:
    """The oracle with its settings. Raises BadInputError that says what is accepted."""
    settings = settings or Settings()
    for name in ("rtol", "atol", "timeout"):
        value = getattr(settings, name)
        if value is not None and not 0 <= value < math.inf:
            raise BadInputError(f"--{name} {value} is not a finite number of at least 0")
    if settings.slower is not None and not 1 < settings.slower < math.inf:
        raise BadInputError(f"--slower {settings.slower} is not a factor above 1")
    own = custom(text, settings.timeout)
    if own is not None:
        fixed = ("suspect", "reference", "rtol", "atol", "expect", "match", "slower")
        given = [name for name in fixed if getattr(settings, name) is not None]
        if given:
            raise BadInputError(f"--{given[0]} does not go with a command or function as oracle")
        return own
    spec = find(text)
    suspect = Target.parse(settings.suspect) if settings.suspect else spec.suspect
    reference = Target.parse(settings.reference) if settings.reference else spec.reference
    if (suspect, reference) != (spec.suspect, spec.reference):
        spec = replace(spec, name=f"{suspect} against {reference}", suspect=suspect, reference=reference)
    tolerance = spec.tolerance
    if settings.rtol is not None:
        tolerance = Tolerance({"*": settings.rtol}, tolerance.absolute)
    if settings.atol is not None:
        tolerance = replace(tolerance, absolute=settings.atol)
    slower = settings.slower or spec.slower
    expectation = _expectation(settings)
    if expectation.kind is Kind.SLOW and slower is None:
        raise BadInputError("--expect slow needs --slower FACTOR, or slower = FACTOR in the oracle's file")
    timeout = settings.timeout or spec.timeout
    return replace(spec, tolerance=tolerance, timeout=timeout, expectation=expectation, slower=slower)


def _expectation(settings: Settings) -> Expectation:
    kind = None
    if settings.expect is not None:
        kind = CLASSES.get(settings.expect)
        if kind is None:
            raise BadInputError(f"--expect {settings.expect!r} is not one of {', '.join(CLASSES)}")
    if settings.match is not None:
        try:
            re.compile(settings.match)
        except re.error as error:
            raise BadInputError(f"--match {settings.match!r} is not a regular expression: {error}") from error
    return Expectation(kind, settings.match or "")
