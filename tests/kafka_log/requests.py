"""The base of typed steps: each one becomes a request of the oracle, with the oracle's names.

A family of steps is a class; its steps are frozen dataclasses that extend it. A field that is None
is left out. `names` maps the fields that have another name in the oracle, such as `data` (`bytes`).
"""

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar, Self


class Request:
    """A step that has a request."""

    __slots__ = ()
    names: ClassVar[Mapping[str, str]] = {"data": "bytes"}

    @classmethod
    def name(cls) -> str:
        """Return the oracle's name of the step: `truncate_to` for `TruncateTo`."""
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()

    def request(self) -> dict[str, Any]:
        """Return the step as the oracle takes it."""
        request: dict[str, Any] = {"do": self.name()}
        for each in fields(self):  # type: ignore[arg-type]
            value = getattr(self, each.name)
            if hasattr(value, "request"):
                request |= value.request()
            elif value is not None:
                request[self.names.get(each.name, each.name)] = value
        return request

    @classmethod
    def of(cls, request: Mapping[str, Any]) -> Self:
        """Read a step back from its request."""
        given = {each.name: cls.names.get(each.name, each.name) for each in fields(cls)}  # type: ignore[arg-type]
        return cls(**{field: request[name] for field, name in given.items() if name in request})
