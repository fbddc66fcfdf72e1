"""Damaged partition directories from a seed: sound ones by Kafka, damage drawn here.

    sources = build_sources(oracle, folder)      a dozen sound directories, once
    case = draw_case(seed, sources)              which one, what is done to it, how it is opened
    make(case, target)                           the damaged directory

A case is deterministic: the same seed gives the same directory. Damage is done to bytes and names,
never by code under test.
"""
