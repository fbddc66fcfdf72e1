"""Tables to Delta or Parquet, each time only what is new.

export            plan and write the tables
export_history    which tables already have every row, according to manifests
"""
