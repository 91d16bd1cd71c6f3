"""Reports: what a session found, to read, to save and to send."""

from nbdebug.report.report import Report

__all__ = ["Report"]
