"""Links a program with the stubs of the driver's libraries, runs it, and compares names.

For a machine with a driver; it needs an environment with cuda-driver-dev, cuda-nvml-dev and
cuda-cudart-dev, gcc and binutils, and no package of Python. Without a driver, the program must say
that libcuda.so.1 is missing. Prints how many names of each stub the driver's own library has, and
those that it lacks. Example: python3 benchmarks/driver_stub.py ENVIRONMENT
"""

from __future__ import annotations

import argparse
import ctypes
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = """
#include <cuda.h>
#include <nvml.h>
#include <stdio.h>
int main(void) {
  int version = 0, count = 0;
  unsigned int devices = 0;
  CUdevice device;
  CUcontext context;
  CUdeviceptr memory = 0;
  unsigned int value = 0;
  CUresult status = cuInit(0);
  if (!status) status = cuDriverGetVersion(&version);
  if (!status) status = cuDeviceGetCount(&count);
  if (!status) status = cuDeviceGet(&device, 0);
  if (!status) status = cuDevicePrimaryCtxRetain(&context, device);
  if (!status) status = cuCtxSetCurrent(context);
  if (!status) status = cuMemAlloc(&memory, 4);
  if (!status) status = cuMemsetD32(memory, 42, 1);
  if (!status) status = cuMemcpyDtoH(&value, memory, 4);
  if (!status) status = cuMemFree(memory);
  nvmlReturn_t nvml = nvmlInit();
  if (!nvml) nvml = nvmlDeviceGetCount(&devices);
  printf("driver %d, %d GPUs, %u read back (CUresult %d); NVML: %u GPUs (nvmlReturn_t %d)\\n",
         version, count, value, status, devices, nvml);
  return status || nvml || value != 42;
}
"""
LIBRARIES = {"libcuda.so": "libcuda.so.1", "libnvidia-ml.so": "libnvidia-ml.so.1"}


def names_of(stub: Path) -> list[str]:
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", stub], capture_output=True, text=True, check=True
    )
    return [line.split()[-1] for line in listed.stdout.splitlines()]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("environment", type=Path, help="its folder")
    place = parser.parse_args().environment.resolve()
    (target,) = (place / "targets").glob("*-linux")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "program.c").write_text(PROGRAM)
        words = [f"-I{target}/include", f"-L{target}/lib/stubs", "-lcuda", "-lnvidia-ml"]
        subprocess.run(["gcc", "program.c", "-o", "program", *words], cwd=folder, check=True)
        done = subprocess.run([Path(folder, "program")], capture_output=True, text=True)
    print((done.stdout + done.stderr).strip())
    for stub, library in LIBRARIES.items():
        try:
            driver = ctypes.CDLL(library)
        except OSError as error:
            print(f"{library}: {error}")
            continue
        names = names_of(target / "lib" / "stubs" / stub)
        lacking = [name for name in names if not hasattr(driver, name)]
        print(f"{stub}: {len(names)} names, {len(names) - len(lacking)} of them in {library}")
        print("\n".join(f"  not there: {name}" for name in lacking))
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
