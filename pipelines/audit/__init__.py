"""The job `audit`: everything that is wrong in log dirs, as findings.

audit           scans, runs the checks on an engine, and returns a report
baseline        accepted findings, by fingerprint
fingerprint     names a finding so that it is known again after compaction and on another mount
outputs/        the report as text, SARIF, JUnit, HTML, for GitHub, and as a table
pages           the page of a rule
plan            which partitions and segments are checked, and in which tasks
python          `audit` and `assert_clean`, for scripts, notebooks and tests
report          AuditReport: findings, what was not checked, verdict and exit code
rule_selection  which rules are reported
store           keeps any number of findings, sorted, in bounded memory
tasks           the checks of segments and of partitions, as functions over tasks
worst_first     the order of the table `findings`
"""
