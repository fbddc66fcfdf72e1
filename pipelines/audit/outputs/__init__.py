"""An audit's report in forms for people and programs.

findings_table  a Delta table or Parquet files of all findings
github          annotations and the step summary of a GitHub Actions run
html            one page, also for notebooks
html_template   its Jinja template
junit           JUnit XML: a test case per partition
log_map         drawings of damaged logs: segments, damage, transactions
sarif           SARIF 2.1.0, for code scanning
shown_records   keys and values next to a finding, only on request
text            lines for a terminal
"""
