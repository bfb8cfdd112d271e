"""What the programs beside it import for: which libraries of CUDA are in a process."""

import os
import re
import sys


def loaded(names="cu|nv|nccl"):
    """The files of libraries whose names begin so after ``lib``.

    Below the environment where they are there.
    """
    with open("/proc/self/maps", encoding="utf-8") as maps:
        files = {line.split()[-1] for line in maps if re.search(rf"/lib({names})[^/]*\.so", line)}
    home = os.path.realpath(sys.prefix) + os.sep
    return sorted(os.path.realpath(file).removeprefix(home) for file in files)
