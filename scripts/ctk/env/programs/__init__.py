"""Programs that run with an environment's own Python or shell; packs carry them, and they import nothing of ctk."""
