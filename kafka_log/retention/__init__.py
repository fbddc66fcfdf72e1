"""Which segments retention deletes.

breaches    the rules: retention.ms, retention.bytes, log start offset
plan        retention of a directory without a broker, with reasons
"""
