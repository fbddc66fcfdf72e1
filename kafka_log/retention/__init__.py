"""What retention deletes.

breaches    the rules: retention.ms, retention.bytes, log start offset
plan        retention of a directory that no broker serves, with reasons
"""
