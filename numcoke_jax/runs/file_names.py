"""Names of what a workdir holds."""

CONFIG_FILE = "config.json"
VOCABULARY_FILE = "vocabulary.json"
CHECKPOINTS_FOLDER = "checkpoints"
LOCK_FILE = ".lock"
METRICS_FILE = "metrics.jsonl"
REPORT_FILE = "report.json"
HTML_FILE = "report.html"
