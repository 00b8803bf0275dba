"""Member files: read, write, verify, exchange, and what is fitted to them."""
from abnn_mmseg.members import autoload  # noqa: F401
