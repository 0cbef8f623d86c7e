"""How log lines look: text for people, one JSON object a line for collectors.

What is about a session carries its resource, scope, session and version as fields of their own. No line ever holds the
content of an object: that is kept by those who log.
"""

from __future__ import annotations

import logging

import orjson

FIELDS = ("resource", "scope", "session", "version")


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, logger, message, and the fields that there are."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: value for name in FIELDS if (value := getattr(record, name, None)) is not None}
        return orjson.dumps(line).decode()


class TextLines(logging.Formatter):
    """Time, level and message, and the session in brackets; resource and version are in the message."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        session = getattr(record, "session", None)
        return super().format(record) + (f" [{session}]" if session else "")


def set_up(log_format: str, level: str) -> None:
    """Log to standard error as `text` or `json`."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if log_format == "json" else TextLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.getLogger("urllib3").setLevel(logging.ERROR)  # it logs URLs and every dropped connection
    logging.getLogger("kubernetes").setLevel(logging.WARNING)
