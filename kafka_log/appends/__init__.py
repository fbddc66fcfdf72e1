"""The parts of an append: what came in, what it must satisfy, what is written."""
