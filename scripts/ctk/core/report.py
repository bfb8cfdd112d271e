"""Another name of `ctk.core.console`."""

from ctk.core.console import Reporter, Task, count, megabytes

__all__ = ["Reporter", "Task", "count", "megabytes"]
