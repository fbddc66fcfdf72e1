"""The rules about directories, checkpoints and other small files."""

from kafka_log.checks.rules.rule import Rule, Severity

_E, _W, _N = Severity.ERROR, Severity.WARNING, Severity.NOTE

DOES_NOT_LOAD = (
    "The partition does not load: the broker does not start, or takes the log dir offline."
)

DIRECTORY_RULES: dict[str, Rule] = {
    "CKP001": Rule(
        _E,
        "an offset checkpoint that cannot be read",
        "The broker marks the log dir as failed: it loads the logs as if there were no "
        "checkpoint, then takes the log dir offline.",
        "Delete the file while the broker is stopped. The effect depends on the file:",
    ),
    "MET001": Rule(
        _E,
        "a partition.metadata that cannot be read",
        DOES_NOT_LOAD,
        "Delete the file: the broker writes it again from the metadata. Or write it with the "
        "topic id of the KRaft metadata (`partitions.metadata_topic_id`).",
    ),
    "MET002": Rule(
        _E,
        "a meta.properties that cannot be read",
        "The broker does not start.",
        "Write it again from another log dir of the same node: `node.id` and `cluster.id` are the "
        "same there, `directory.id` is not.",
    ),
    "MET003": Rule(
        _N,
        "a clean shutdown file without a broker epoch",
        "The shutdown still counts as clean; the broker registers without its last epoch.",
        "Nothing. If you are not sure that the stop was clean, delete the file: the logs are then "
        "recovered.",
    ),
    "MET004": Rule(
        _E,
        "a quorum-state that cannot be read",
        "The node does not start.",
        "Restore it from a backup. If the rest of the quorum has a majority, the node can be "
        "formatted again and catches up.",
    ),
    "MET005": Rule(
        _E,
        "a setting in the cluster metadata that Kafka refuses",
        "A topic's: the broker fails when it loads its logs. A broker's: it is logged and left "
        "out, or fails when the broker uses it.",
        "Find the record with `dump`. Delete the setting with `kafka-configs.sh --alter "
        "--delete-config` if a broker still runs; otherwise restore the metadata log from another "
        "node of the quorum.",
    ),
    "DIR001": Rule(
        _E,
        "something that could not be read",
        "If the broker cannot read it either, it takes the log dir offline or does not start.",
        "Check the disk and the permissions, and run the command again.",
    ),
    "DIR002": Rule(
        _E,
        "a directory that is not a partition directory",
        "The broker does not start with it.",
        "Move it away.",
    ),
    "DIR003": Rule(
        _E,
        "two directories for the same partition",
        "The broker does not start with both.",
        "Compare both, for example with `kafka-forensics offsets`, and keep one.",
    ),
    "DIR004": Rule(
        _N,
        "a directory inside a partition directory",
        "The broker ignores it.",
        "Nothing, or move it away.",
    ),
    "DIR005": Rule(
        _E,
        "a Kafka file name that is not a regular file",
        "The broker fails to open it: it does not start, or takes the log dir offline.",
        "Find out who created it. Move it away, and run the command again.",
    ),
    "DIR006": Rule(
        _E,
        "a file larger than Kafka can write",
        "The partition does not load: Kafka uses 31-bit positions in such a file.",
        "Check how much of it is on the disk (`du`): a sparse file is mostly a hole. Restore the "
        "file from another replica.",
    ),
    "DIR007": Rule(
        _W,
        "a link out of the given paths that was not followed",
        "A broker follows it.",
        "If it belongs to the evidence, give its target as another PATH, or use `--follow-links` "
        "(`followLinks` in Spark).",
    ),
    "DIR008": Rule(
        _E,
        "a file that changed while it was read",
        "Unknown: something else writes to this directory.",
        "Stop the process that writes there (a broker, a restore), or read a copy or a snapshot "
        "of the disk.",
    ),
}
