"""What the cleaners of Kafka's releases do differently, as far as files show it.

last batch of a round   since 4.0 kept empty if all its records are removed (KAFKA-17076)
magic 0 and 1           since 4.0 become magic 2 (KAFKA-13093); before, a wrapper that loses
                        records, or has messages of another magic (KAFKA-4298), is built again
                        in its own magic, all others are copied, and none gets a delete horizon

What surrounds a round (which log is next and how far it may be cleaned, the groups, the swap,
retention after it, checkpoints, a start) is the same from 3.9.1 to 4.3.1.
"""

from typing import NamedTuple


class CleanerRules(NamedTuple):
    release: str
    """As a user names it."""
    keeps_last_batch_of_round: bool
    converts_old_magics: bool


KAFKA_4_3 = CleanerRules("4.3", keeps_last_batch_of_round=True, converts_old_magics=True)
"""4.0.1 to 4.3.1."""
KAFKA_3_9_1 = CleanerRules("3.9.1", keeps_last_batch_of_round=False, converts_old_magics=False)
"""Only that release: 3.9.0 has other index entries, 3.9.2 keeps the last batch of a round."""
RELEASES = {rules.release: rules for rules in (KAFKA_3_9_1, KAFKA_4_3)}
"""All supported releases, the newest last."""
