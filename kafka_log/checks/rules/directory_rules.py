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
    "CKP002": Rule(
        _E,
        "a high watermark beyond the log end",
        "The high watermark becomes the log end. The missing records are not served; if this "
        "replica becomes the leader, the others truncate them too.",
        "Compare with the other replicas before this broker starts. If one of them has the "
        "offsets, let it stay the leader: this replica then fetches them again.",
    ),
    "CKP003": Rule(
        _E,
        "a recovery point beyond the log end",
        "The recovery point becomes the log end. The missing records are not served.",
        "Compare with the other replicas. The records had reached the disk, so look for a lost "
        "segment, a truncated file or an older copy of the directory.",
    ),
    "CKP004": Rule(
        _E,
        "a log start beyond the log end",
        "The broker removes all segments and starts an empty log at the log start.",
        "Copy the directory first. If the records are needed, remove the row of the partition "
        "from `log-start-offset-checkpoint` (and lower its count) while the broker is stopped.",
    ),
    "CKP005": Rule(
        _W,
        "a cleaner offset beyond the log end",
        "The cleaner logs a warning, begins at the log start again, and writes that into the "
        "checkpoint.",
        "Nothing for the cleaner. Find out why the log is shorter than what was cleaned: records "
        "are missing.",
    ),
    "CKP006": Rule(
        _N,
        "a checkpointed offset below the log start",
        "The broker raises the offset to the log start.",
        "Nothing.",
    ),
    "CKP007": Rule(
        _N,
        "a recovery point below the log end after a clean stop",
        "The recovery point becomes the log end; nothing is recovered, because the stop counts as "
        "clean.",
        "If segments were restored or appended since the stop, delete `.kafka_cleanshutdown`: the "
        "log is then checked.",
    ),
    "CKP008": Rule(
        _E,
        "checkpoints promise records of a partition that is not on disk",
        "If the partition is assigned to this broker, an empty log is created and filled from the "
        "leader. Without another replica, the records are lost.",
        "Look for the directory on the other disks of this broker, and in `lost+found`. If "
        "another replica has the partition, let it stay the leader.",
    ),
    "CKP009": Rule(
        _N,
        "a checkpoint row of a partition that is not on disk",
        "The broker ignores the row, and drops it when it writes the file again.",
        "Nothing.",
    ),
    "CKP010": Rule(
        _N,
        "a partition without a row in a checkpoint",
        "The offset counts as 0. After a clean stop nothing depends on it, except that the high "
        "watermark begins at the log start.",
        "Nothing, if the partition was copied here. Otherwise compare the checkpoint with a "
        "backup.",
    ),
    "CKP011": Rule(
        _W,
        "an offset checkpoint is missing",
        "The broker creates an empty file: no partition has a row in it.",
        "Restore the file from a backup of the same moment, or accept what is missing.",
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
    "MET006": Rule(
        _W,
        "a replica that the cluster metadata does not assign to this broker",
        "The directory is renamed to `-stray` after it is loaded, and no longer served, unless "
        "newer metadata assigns it to this broker. Its data stays on the disk.",
        "If the metadata is right, delete the directory. If the metadata log was lost or "
        "replaced, restore it before the broker starts.",
    ),
    "MET007": Rule(
        _E,
        "a partition directory with records and without partition.metadata",
        "The directory is renamed to `-stray` after it is loaded, and no longer served. If the "
        "partition is assigned to this broker, an empty log takes its place.",
        "Write the file with the topic id of the KRaft metadata (`partitions.metadata_topic_id`), "
        "for example a copy from another partition of the topic.",
    ),
    "MET008": Rule(
        _W,
        "partitions of one topic with different topic ids",
        "The replicas whose id the metadata does not have are renamed to `-stray`.",
        "`kafka-topics.sh --describe` prints the id of the topic. Move the other directories away.",
    ),
    "MET009": Rule(
        _E,
        "a metadata log with the id of another topic",
        "The broker does not start.",
        "Write `topic_id: AAAAAAAAAAAAAAAAAAAAAQ` into its `partition.metadata`.",
    ),
    "MET010": Rule(
        _E,
        "a directory id that is reserved or used by two log dirs",
        "The broker does not start.",
        "If one of the log dirs is a copy, leave it out. Otherwise delete the line `directory.id` "
        "from one of the two: the broker writes a new one.",
    ),
    "MET011": Rule(
        _W,
        "a log dir without meta.properties",
        "A broker with KRaft does not start. One with ZooKeeper writes a new file.",
        "Write it again from another log dir of the same node: `node.id` and `cluster.id` are the "
        "same there. Leave `directory.id` out: the broker adds one.",
    ),
    "MET012": Rule(
        _E,
        "a log dir that is registered for a broker of another id or cluster",
        "The broker does not start.",
        "Correct `node.id` and `cluster.id` from another log dir of the broker that is named, or "
        "move the disk back to its own node.",
    ),
    "MET013": Rule(
        _W,
        "a log dir that is not registered for its broker",
        "The broker registers it. Replicas that the metadata assigns to a log dir that is gone "
        "are offline until the broker has reported where they are.",
        "Nothing, if the log dir is new. Otherwise restore `directory.id` in `meta.properties`.",
    ),
    "MET014": Rule(
        _N,
        "a replica in another log dir than the cluster metadata says",
        "The replica is served from where it is, and the broker reports its log dir to the "
        "controller.",
        "Nothing, unless two log dirs have been exchanged or merged by hand.",
    ),
    "MET015": Rule(
        _W,
        "a replica that is assigned to a log dir and not there",
        "The broker creates an empty log and fetches everything from the leader.",
        "Nothing, if another in-sync replica has the data. Look for the directory on other disks "
        "otherwise.",
    ),
    "MET016": Rule(
        _E,
        "a partition with one replica, which is assigned to a log dir and not there",
        "The broker creates an empty log and leads the partition with it: all of its records are "
        "lost.",
        "Do not start the broker before you have looked for the directory on other disks and in "
        "backups.",
    ),
    "MET017": Rule(
        _N,
        "a missing partition.metadata that nothing depends on",
        "The broker writes the file again.",
        "Nothing.",
    ),
    "MET018": Rule(
        _E,
        "a replica with the id of another topic",
        "The directory is loaded under its name, but the partition does not come online: the "
        "topic has another id.",
        "Find out which topic the records belong to, for example with `kafka-forensics dump`, and "
        "give the directory its name back.",
    ),
    "MET019": Rule(
        _W,
        "a metadata log without quorum-state",
        "The node starts with the last epoch of its log. It has forgotten for whom it voted, and "
        "may vote a second time in that epoch.",
        "Restore the file from a backup of the same moment. If the rest of the quorum has a "
        "majority, start the node last.",
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
    "DIR009": Rule(
        _N,
        "files that are marked as deleted",
        "The broker deletes them.",
        "Nothing. They still have the records of segments that were deleted or compacted; copy "
        "them if those are needed.",
    ),
    "DIR010": Rule(
        _N,
        "unfinished or temporary files",
        "The broker deletes them, or replaces them when it writes the file again.",
        "Nothing.",
    ),
    "DIR011": Rule(
        _W,
        "a finished segment that was not swapped in",
        "The broker deletes the live segments that it replaces, and renames it.",
        "Nothing after a crash. Otherwise compare the segment with those that it replaces: "
        "`kafka-forensics recover --dry-run` lists them.",
    ),
    "DIR012": Rule(
        _N,
        "a directory that is marked as deleted",
        "The broker loads it without recovery, then deletes it.",
        "Nothing. It still has the records; copy it if they are needed.",
    ),
    "DIR013": Rule(
        _N,
        "a replica that is being moved to another log dir",
        "The move continues.",
        "Nothing.",
    ),
    "DIR014": Rule(
        _W,
        "a stray directory",
        "The broker loads it and does not serve it. It is never deleted.",
        "Find out why the replica did not belong to the broker. If its data is not needed, delete "
        "the directory.",
    ),
    "DIR015": Rule(
        _N,
        "a file that Kafka does not use",
        "The broker ignores it.",
        "Nothing, or move it away.",
    ),
    "DIR016": Rule(
        _E,
        "a file name with which a partition does not load, or loads another file",
        "The broker takes the part before the first dot as an offset. If it is none, the broker "
        "does not start. Otherwise it opens the file with the proper name of that offset, and "
        "creates it if it does not exist: the log may end there.",
        "Move the file away while the broker is stopped, or give it its proper name with 20 "
        "digits.",
    ),
}
