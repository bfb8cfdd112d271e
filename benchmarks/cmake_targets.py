"""Links a program with each ``CUDA::`` target of CMake's FindCUDAToolkit in an environment.

The targets are those that the module's own documentation names. Each is looked up in one project. A
program that refers to the whole library (all members of a static one) is linked with each library
that is there; a program that is there must be a file. The environment has cuda-toolkit,
cuda-nvml-dev, cuda-nvtx-dev, gxx_linux-64, ninja and cmake. Ends with 1 if a target that is there
is of no use. Example:
.venv/bin/python benchmarks/cmake_targets.py ENVIRONMENT
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from pathlib import Path

from foreign import Project, run

PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(targets LANGUAGES CXX)
find_package(CUDAToolkit REQUIRED)
find_package(Threads REQUIRED)
add_link_options(-Wl,--no-as-needed)
foreach(name IN ITEMS {names})
  if(NOT TARGET CUDA::${{name}})
    continue()
  endif()
  get_target_property(type CUDA::${{name}} TYPE)
  if(type STREQUAL "EXECUTABLE")
    get_target_property(program CUDA::${{name}} IMPORTED_LOCATION)
    file(APPEND ${{CMAKE_BINARY_DIR}}/programs.txt "${{name}} ${{program}}\n")
    continue()
  endif()
  add_executable(${{name}} main.cpp)
  if(name MATCHES "_static|culibos")
    set(all -Wl,--whole-archive CUDA::${{name}} -Wl,--no-whole-archive)
    target_link_libraries(${{name}} PRIVATE ${{all}} Threads::Threads ${{CMAKE_DL_LIBS}} rt)
  else()
    target_link_libraries(${{name}} PRIVATE CUDA::${{name}})
  endif()
endforeach()
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("environment", type=Path, help="its folder")
    parser.add_argument("--cmake", default="cmake", help="another one")
    given = parser.parse_args()
    prefix = given.environment.resolve()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        page = run(prefix, [given.cmake, "--help-module", "FindCUDAToolkit"], folder).output
        names = sorted(set(re.findall(r"``CUDA::(\w+)``", page)))
        (folder / "main.cpp").write_text("int main() { return 0; }\n")
        (folder / "CMakeLists.txt").write_text(PROJECT.format(names=" ".join(names)))
        project = Project(prefix, folder, folder / "build", cmake=given.cmake)
        if project.configured.code:
            raise SystemExit(f"error: CMake: {project.configured.why}")
        found = {program.name: program for program in project.programs()}
        done = project.compile()
        linked = {name for name, program in found.items() if program.is_linked}
        file = folder / "build/programs.txt"
        lines = file.read_text().splitlines() if file.exists() else []
        there = found.keys() | {line.partition(" ")[0] for line in lines}
        usable = linked | {name for name, _, path in map(words, lines) if Path(path).is_file()}
        if done.code:
            print(done.output, end="")
        print(f"CMake has {len(names)} targets: {len(there)} are there, {len(usable)} can be used")
        print("not there:", *sorted(set(names) - there))
        print("there, and of no use:", *sorted(there - usable))
        sys.exit(1 if there - usable else 0)


def words(line: str) -> tuple[str, str, str]:
    """The name of a program's target, and its path."""
    return line.partition(" ")


if __name__ == "__main__":
    main()
