"""Measure speed and memory of the package, against the obvious way."""
