"""A broker of one node that writes log directories (not written yet)."""
