"""Named oracles: one TOML file each. Those that are shipped lie in `oracles/`; a user adds one by writing a file."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from onnxreduce.errors import BadInputError
from onnxreduce.oracle.comparison import RELATIVE, Tolerance
from onnxreduce.oracle.signature import Expectation, Kind
from onnxreduce.runtimes.target import Target

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_KEYS = {"description", "reference", "suspect", "slower", "tolerance", "timeout"}
_DTYPES = (
    *RELATIVE,
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "float4_e2m1fn",
)


@dataclass(frozen=True)
class OracleSpec:
    """What an oracle's file says: two targets, tolerances, and a time limit in seconds if it has its own.

    `slower`: the suspect also fails when it takes more than so many times the reference's time.
    """

    name: str
    reference: Target
    suspect: Target
    description: str = ""
    tolerance: Tolerance = field(default_factory=Tolerance)
    timeout: float | None = None
    expectation: Expectation = field(default_factory=Expectation)
    slower: float | None = None

    def to_json(self) -> dict[str, Any]:
        """For a record from which `from_json` makes the same oracle again: JSON types only."""
        return {
            "name": self.name,
            "description": self.description,
            "reference": str(self.reference),
            "suspect": str(self.suspect),
            "tolerance": {"absolute": self.tolerance.absolute, **self.tolerance.relative},
            "noise": self.tolerance.noise,
            "timeout": self.timeout,
            "expect": self.expectation.kind.name if self.expectation.kind else None,
            "match": self.expectation.pattern,
            "slower": self.slower,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> OracleSpec:
        """An oracle from its record; raises KeyError, TypeError or ValueError for one that is not such a record."""
        relative = {key: float(value) for key, value in data["tolerance"].items() if key != "absolute"}
        timeout = data["timeout"]
        if timeout is not None and not (_is_number(timeout) and timeout > 0):
            raise ValueError("timeout is a number of seconds above 0")
        return cls(
            data["name"],
            Target.parse(data["reference"]),
            Target.parse(data["suspect"]),
            data["description"],
            Tolerance(relative, float(data["tolerance"]["absolute"]), float(data["noise"])),
            timeout,
            Expectation(Kind[data["expect"]] if data["expect"] else None, data["match"]),
            data.get("slower"),
        )

    def at_ort_web(self, version: str) -> OracleSpec:
        """The same oracle with its onnxruntime-web targets at another version, or at the folder of a local build."""

        def at(target: Target) -> Target:
            return target.with_version(version) if target.runtime == "ort-web" else target

        return replace(self, reference=at(self.reference), suspect=at(self.suspect))


def shipped_folder() -> Path:
    """Where the shipped oracles lie: inside an installed package, at the top of a source tree."""
    inside = Path(__file__).parents[1] / "oracles"
    return inside if inside.is_dir() else Path(__file__).parents[3] / "oracles"


def shipped() -> dict[str, Path]:
    """Shipped oracles by name."""
    return {path.stem: path for path in sorted(shipped_folder().glob("*.toml"))}


def find(name: str) -> OracleSpec:
    """The oracle of a shipped name or of a TOML file; raises BadInputError that lists the known ones."""
    path = Path(name)
    if name.endswith(".toml"):
        if not path.is_file():
            raise BadInputError(f"oracle file {name} does not exist")
        return read(path)
    known = shipped()
    if name not in known:
        raise BadInputError(f"unknown oracle {name!r}; known: {', '.join(known)}; or give the path of a .toml file")
    return read(known[name])


def read(path: Path) -> OracleSpec:
    """Read an oracle's file; raises BadInputError that names the file and the key at fault."""
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadInputError(f"oracle file {path}: {error}") from error
    unknown = set(data) - _KEYS
    if unknown:
        raise BadInputError(
            f"oracle file {path}: unknown key {sorted(unknown)[0]!r}; known: {', '.join(sorted(_KEYS))}"
        )
    for key in ("reference", "suspect"):
        if not isinstance(data.get(key), str):
            raise BadInputError(f'oracle file {path}: {key} = "TARGET" is missing')
    timeout = data.get("timeout")
    if timeout is not None and not (_is_number(timeout) and timeout > 0):
        raise BadInputError(f"oracle file {path}: timeout is a number of seconds above 0")
    slower = data.get("slower")
    if slower is not None and not (_is_number(slower) and slower > 1):
        raise BadInputError(f"oracle file {path}: slower is a factor above 1")
    if not isinstance(data.get("description", ""), str):
        raise BadInputError(f"oracle file {path}: description is a text")
    try:
        reference, suspect = Target.parse(data["reference"]), Target.parse(data["suspect"])
    except BadInputError as error:
        raise BadInputError(f"oracle file {path}: {error}") from error
    tolerance = _tolerance(path, data.get("tolerance", {}))
    return OracleSpec(path.stem, reference, suspect, data.get("description", ""), tolerance, timeout, slower=slower)


def _tolerance(path: Path, table: Mapping[str, Any]) -> Tolerance:
    if not isinstance(table, Mapping):
        raise BadInputError(f"oracle file {path}: tolerance is a table of numbers by dtype")
    for key, value in table.items():
        if key not in _DTYPES and key not in ("absolute", "*"):
            raise BadInputError(
                f"oracle file {path}: unknown key tolerance.{key}; known: {', '.join(_DTYPES)}, absolute, and '*' for "
                "the other dtypes"
            )
        if not _is_number(value) or value < 0:
            raise BadInputError(f"oracle file {path}: tolerance.{key} is a number of at least 0")
    relative = {key: float(value) for key, value in table.items() if key != "absolute"}
    return Tolerance(relative, float(table.get("absolute", Tolerance().absolute)))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
