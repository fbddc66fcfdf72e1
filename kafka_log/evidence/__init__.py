"""The inventory of log dirs, read-only, with every problem attached to its place."""
