"""What torchvision and torchaudio of this channel compute, beside pip's own wheels in the same run.

Both environments run `tests/system/gpu/programs/torch_neighbours.py`, on the GPU if there is one,
and what they computed is compared. Neither needs a network.

    ctk env create pytorch torchvision torchaudio torchcodec pillow --prefix OURS --driver 13.0
    python3 -m venv PIP
    PIP/bin/pip install torch==2.14.1 torchvision==0.29.1 torchaudio==2.11.0 torchcodec==0.17.0 \\
        numpy pillow
    python3 benchmarks/beside_pip.py OURS PIP

For a machine that takes files in parts, on this one and there:

    tar -C PARENT -c OURS PIP | zstd -T0 -10 | split -b 60M - parts/both.
    cat parts/both.* | zstd -d | tar -x

It ends with 1 if something differs by more than its tolerance, if our environment lacks what pip's
computes, or if it loads a library of CUDA that is neither its own nor the driver's. What only ours
computes, such as torchcodec's pictures where pip's side has no torchcodec, is not comparable.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any

PROGRAM = Path(__file__).parents[1] / "tests/system/gpu/programs/torch_neighbours.py"
COMPARE = """
import json, sys
import numpy as np
ours, theirs = (np.load(name) for name in sys.argv[1:3])
rows = []
for name in dict.fromkeys([*ours.files, *theirs.files]):
    if name not in ours.files:
        rows.append([name, None, "missing here"])
        continue
    if name not in theirs.files:
        rows.append([name, None, "not in pip's"])
        continue
    a, b = ours[name], theirs[name]
    if a.shape != b.shape or a.dtype != b.dtype:
        rows.append([name, None, f"{a.dtype}{list(a.shape)}, not {b.dtype}{list(b.shape)}"])
        continue
    exact = bool(np.array_equal(a, b))
    a, b = a.astype(np.complex128), b.astype(np.complex128)
    largest = float(np.abs(b).max()) or 1.0
    rows.append([name, float(np.abs(a - b).max()) / largest, "" if exact else "differs"])
print(json.dumps(rows))
"""
# Of the largest number. Both sides have their own cuBLAS and cuDNN, of the same toolkit, and cuDNN
# is another version: its convolutions may be summed in another order. Whatever is not named here
# has to be the same, bit by bit.
TOLERANCES = {
    "ResNet-50: classes": 1e-4,
    "ResNet-50: loss": 1e-5,
    "ResNet-50: first gradient": 1e-2,
    "ResNet-50: last gradient": 1e-4,
    # Sums of atomic additions, in any order.
    "roi_align: gradient": 1e-5,
    # cuFFT and cuBLAS.
    "spectrogram": 1e-6,
    "mel spectrogram": 1e-6,
    "MFCC": 1e-5,
    "resample": 1e-6,
    "deform_conv2d": 1e-6,
}
ONLY_OURS = "not in pip's"  # as COMPARE says it
OF_THE_DRIVER = ("libcuda.so", "libcudadebugger.so", "libnvcuvid.so", "libnvidia-")


def run(prefix: Path, out: Path) -> Mapping[str, Any]:
    """What the program says of an environment; it writes `out`."""
    clean = {"PATH": f"{prefix}/bin:/usr/bin:/bin", "HOME": str(out.parent), "LANG": "C.UTF-8"}
    clean |= {k: v for k, v in os.environ.items() if k == "CUDA_VISIBLE_DEVICES"}
    command = [str(prefix / "bin/python"), "-W", "ignore", str(PROGRAM), str(out)]
    done = subprocess.run(command, env=clean, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{prefix}: ended with {done.returncode}\n{done.stderr}")
    found: Mapping[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def foreign(report: Mapping[str, Any]) -> list[str]:
    """Libraries that are neither the environment's nor the driver's."""
    outside = [PurePath(file) for file in report["loaded"] if PurePath(file).is_absolute()]
    return [str(file) for file in outside if not file.name.startswith(OF_THE_DRIVER)]


def shown(difference: float | None, word: str) -> str:
    """A difference as the table has it."""
    if difference is None:
        return "-"
    return f"{difference:.1e}" if word else "equal"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("ours", type=Path, help="prefix of an environment of this channel")
    parser.add_argument("pip", type=Path, help="folder of pip's venv")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder, "ours.npz"), Path(folder, "pip.npz")
        prefixes = (asked.ours.resolve(), asked.pip.absolute())
        ours, theirs = (run(*pair) for pair in zip(prefixes, files, strict=True))
        compare = [prefixes[0] / "bin/python", "-c", COMPARE, *files]
        rows = json.loads(
            subprocess.run(compare, capture_output=True, text=True, check=True).stdout
        )
    for name in ("device", "torch", "torchvision", "torchaudio", "cudnn"):
        print(f"{name:30} {ours[name]!s:24} {theirs[name]!s}")
    print(f"\n{'what':30} {'difference':>12} {'tolerance':>12}")
    alone = [row for row in rows if row[2] == ONLY_OURS]
    both = [row for row in rows if row[2] != ONLY_OURS]
    failed = 0
    for name, difference, word in both:
        limit = TOLERANCES.get(name, 0.0)
        is_right = difference is not None and difference <= limit
        failed += not is_right
        verdict = "" if is_right else f"WRONG {word}"
        print(f"{name:30} {shown(difference, word):>12} {limit:12.0e} {verdict}")
    for name, _, word in alone:
        print(f"{name:30} {'-':>12} {'-':>12} not comparable: {word}")
    for file in foreign(ours):
        failed += 1
        print(f"our environment loads {file}")
    print(f"\n{len(both)} compared, {failed} wrong, {len(alone)} not comparable")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
