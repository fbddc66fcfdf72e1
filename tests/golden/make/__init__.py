"""Makes the golden directories: starts a real broker, drives real clients, stops it, packs it up.

    python -m tests.golden.make NAME|all

One run never gives the bytes of another (topic ids, clocks, batching); what a pack must hold is
said in tests/golden/test_golden.py.
"""
