"""Writes its final path into the files of an unpacked environment, and moves it there.

conda-unpack, which conda-pack wrote, has the list of files and the function that changes them, but
would write the path that it is called from. The final path must stay empty until everything is
done, so this calls the function with it.
"""

import os
import runpy
import sys


def main(unpacked: str, prefix: str) -> str:
    """Returns the error, or an empty string."""
    tools = [
        os.path.join(unpacked, "bin", name) for name in ("conda-unpack", "conda_unpack_progress.py")
    ]
    sys.path.insert(0, os.path.dirname(tools[0]))
    conda_unpack = runpy.run_path(tools[0])
    try:
        for path, placeholder, mode in conda_unpack["_prefix_records"]:
            if mode == "binary" and len(os.fsencode(prefix)) > len(placeholder):
                return (
                    f"{prefix} is longer than the {len(placeholder)} bytes that {path} has room for"
                )
            conda_unpack["update_prefix"](
                os.path.join(unpacked, path), prefix, placeholder, mode=mode
            )
        # They would only find the old path, which is no longer in the files.
        for tool in tools:
            os.remove(tool)
        os.rename(unpacked, prefix)
    except OSError as error:
        return f"{prefix} cannot be made: {error.strerror}"
    return ""


wrong = main(*sys.argv[1:])
if wrong:
    print(f"error: {wrong}\nnext: name another folder", file=sys.stderr)
    sys.exit(3)
