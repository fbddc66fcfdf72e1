"""The parts of a producer state: entries, appends, replay, snapshots, verification."""
