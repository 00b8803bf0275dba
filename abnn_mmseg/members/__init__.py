"""Member files: read, write, verify, exchange; fit numbers and store them."""
from abnn_mmseg.members import autoload  # noqa: F401
