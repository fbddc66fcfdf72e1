"""What typed steps have in common: each is a request of the oracle, under the oracle's names.

A family of steps is a class; its steps are frozen dataclasses that extend it. A field that is None
is not given. `names` says which field the oracle calls otherwise, `data` being its `bytes`.
"""

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar, Self


class Request:
    __slots__ = ()
    names: ClassVar[Mapping[str, str]] = {"data": "bytes"}

    @classmethod
    def name(cls) -> str:
        """`TruncateTo` is the oracle's `truncate_to`."""
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()

    def request(self) -> dict[str, Any]:
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
        given = {each.name: cls.names.get(each.name, each.name) for each in fields(cls)}  # type: ignore[arg-type]
        return cls(**{field: request[name] for field, name in given.items() if name in request})
