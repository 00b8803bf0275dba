"""Use the maps: inference, files, a page."""
