"""What a restart does to one partition: left-overs, segments, producer state, and why."""
