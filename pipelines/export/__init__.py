"""Tables to Delta or Parquet, each time only what is new.

export            plan and write the tables
export_history    which tables have every row already, from manifests
"""
