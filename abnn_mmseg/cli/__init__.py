"""What the commands do, behind their arguments."""
