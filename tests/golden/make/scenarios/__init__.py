"""One module a pack: its NAME, the STORY its manifest tells, and make(scratch) -> the pack."""

from types import ModuleType

from tests.golden.make.scenarios import (
    clean_391,
    cleaner_431,
    groups_431,
    legacy_0102,
    legacy_282,
    small_431,
    unclean_391,
    unclean_431,
)

SCENARIOS: dict[str, ModuleType] = {
    module.NAME: module
    for module in (
        unclean_431,
        cleaner_431,
        groups_431,
        clean_391,
        unclean_391,
        legacy_282,
        legacy_0102,
        small_431,
    )
}
