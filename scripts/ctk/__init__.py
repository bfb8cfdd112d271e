"""The tool of this repository: from release locks to a channel."""

import gc

# Python looks for circles among new objects each time there are so many. A command makes many that
# live to its end, and ends soon: at Python's own 700 that search is a quarter of its time.
gc.set_threshold(200_000)
