"""What Kafka's coordinators hold after they have loaded their topics, read from the logs.

committed_offsets   the offsets that groups committed, from __consumer_offsets
coordinator_log     the records of a coordinator's log, past damage
group_history       what happened to a group, and why an offset is gone
groups              the groups, their members and states, from __consumer_offsets
latest_commits      the commits that later ones replace, found without decoding
remote_segments     the segments in tiered storage, from __remote_log_metadata
"""
