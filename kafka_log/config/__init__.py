"""Settings of brokers and topics, under Kafka's names.

config_def    the name, type, default and bounds of each setting (ConfigDef)
log_config    the settings of one log (LogConfig)
settings      the settings of every topic: metadata, then --config, then --set
"""
