"""Bugs from public reports with their repaired twins, and programs around public libraries and unusual objectives."""
