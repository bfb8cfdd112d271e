"""Whether a channel is what its index says: `check_channel` looks at every file of it and lists what is wrong."""

from __future__ import annotations

from ctk.check.channel.problem import CheckReport, Problem
from ctk.check.channel.run import check_channel

__all__ = ["CheckReport", "Problem", "check_channel"]
