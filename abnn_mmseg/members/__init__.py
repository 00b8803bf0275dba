"""Member files: read, write, verify, exchange, and what is fitted to them."""
