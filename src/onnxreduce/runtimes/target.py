"""The words for one way to run a model: `runtime[@version][/provider][?key=value&...]`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import parse_qsl, quote

from onnxreduce.errors import BadInputError

_GRAMMAR = re.compile(r"(?P<runtime>[a-z][a-z0-9-]*)(@(?P<version>[^/?]+))?(/(?P<provider>[^?]+))?(\?(?P<options>.*))?")


@dataclass(frozen=True)
class Target:
    """One way to run a model, such as `ort-web@1.27.0/webgpu?bundle=webgpu&level=disabled`."""

    runtime: str
    version: str | None = None
    provider: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Target:
        """Read a target; raises BadInputError when the text does not follow the grammar."""
        match = _GRAMMAR.fullmatch(text.strip())
        if match is None:
            raise BadInputError(f"target {text!r} is not of the form runtime[@version][/provider][?key=value&...]")
        try:
            pairs = parse_qsl(match["options"] or "", keep_blank_values=True, strict_parsing=bool(match["options"]))
        except ValueError:
            raise BadInputError(f"target {text!r}: options are of the form ?key=value&key=value") from None
        return cls(match["runtime"], match["version"], match["provider"], dict(pairs))

    def with_version(self, version: str) -> Target:
        """The same target at another version of its runtime."""
        return replace(self, version=version)

    def __str__(self) -> str:
        text = self.runtime
        text += f"@{self.version}" if self.version else ""
        text += f"/{self.provider}" if self.provider else ""
        if self.options:
            text += "?" + "&".join(f"{key}={quote(value, safe=',;:/@')}" for key, value in self.options.items())
        return text
