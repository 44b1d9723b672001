"""Names of what a workdir holds."""

GRAPH_FOLDER = "graph"  # of a run that was started from a table
COMPARISONS_FILE = "comparisons.json"  # how that table was compared
CONFIG_FILE = "config.json"
VOCABULARY_FILE = "vocabulary.json"
CHECKPOINTS_FOLDER = "checkpoints"
LOCK_FILE = ".lock"
METRICS_FILE = "metrics.jsonl"
REPORT_FILE = "report.json"
HTML_FILE = "report.html"
