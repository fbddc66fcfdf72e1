"""What is there: the inventory of log dirs, read-only, with every problem in its place."""
