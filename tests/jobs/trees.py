"""What is below a directory, to be compared."""

import hashlib
from pathlib import Path


def tree(directory: Path) -> dict[str, tuple[str, int]]:
    """Every file below, with its content and time."""
    return {
        str(path.relative_to(directory)): (
            hashlib.sha256(path.read_bytes()).hexdigest(),
            path.stat().st_mtime_ns,
        )
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def contents(directory: Path) -> dict[str, str]:
    """Every file below, with its content."""
    return {name: digest for name, (digest, _) in tree(directory).items()}
