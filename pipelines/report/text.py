"""Words for people."""

_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB")


def human_size(size: int | None) -> str | None:
    """`1023 B`, `1.0 KiB`, `10 MiB`: three figures at most before a unit's 1024."""
    if size is None:
        return None
    if size < 1024:
        return f"{size} B"
    amount = float(size)
    for unit in _UNITS:
        amount /= 1024
        if amount < 1023.5 or unit == _UNITS[-1]:
            return f"{amount:.1f} {unit}" if amount < 9.95 else f"{amount:.0f} {unit}"
    raise AssertionError("the last unit always returns")


def counted(number: int, what: str) -> str:
    """`1 topic`, `2 topics`."""
    return f"{number} {what}{'' if number == 1 else 's'}"
