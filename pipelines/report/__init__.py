"""Text and HTML for people: summaries, sizes and durations."""
