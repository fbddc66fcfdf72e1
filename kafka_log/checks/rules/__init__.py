"""The rules by their ids. docs/findings has a page per rule.

cleaner_rules           CLN compaction
directory_rules         DIR directories, CKP checkpoints, MET other small files
index_rules             IDX .index, TIX .timeindex
internal_topic_rules    REC coordinator and metadata records, GRP consumer groups
log_rules               LOG .log
producer_rules          TXN .txnindex, SNP .snapshot, LEP leader epochs, PRD producers in a log
remote_storage_rules    RMT tiered storage
rule                    Rule and Severity
segment_rules           LOG what lies between segments
transaction_rules       TRN transactions and their coordinator

An id never changes: a rule that is dropped leaves a gap.
"""

from kafka_log.checks.rules.cleaner_rules import CLEANER_RULES
from kafka_log.checks.rules.directory_rules import DIRECTORY_RULES
from kafka_log.checks.rules.index_rules import INDEX_RULES
from kafka_log.checks.rules.internal_topic_rules import INTERNAL_TOPIC_RULES
from kafka_log.checks.rules.log_rules import LOG_RULES
from kafka_log.checks.rules.producer_rules import PRODUCER_RULES
from kafka_log.checks.rules.remote_storage_rules import REMOTE_STORAGE_RULES
from kafka_log.checks.rules.rule import Rule
from kafka_log.checks.rules.segment_rules import SEGMENT_RULES
from kafka_log.checks.rules.transaction_rules import TRANSACTION_RULES

RULES: dict[str, Rule] = {
    **LOG_RULES,
    **SEGMENT_RULES,
    **INDEX_RULES,
    **PRODUCER_RULES,
    **TRANSACTION_RULES,
    **CLEANER_RULES,
    **DIRECTORY_RULES,
    **INTERNAL_TOPIC_RULES,
    **REMOTE_STORAGE_RULES,
}
