"""`ctk doctor` and `ctk env check`: how this machine, this checkout or an environment is, and what to do about it."""
