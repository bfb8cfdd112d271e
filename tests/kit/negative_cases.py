"""Each part of the scheme that the right pick depends on, with the scenarios that go wrong without
it.

They are for the releases in `RELEASES` only, so a new release changes none of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ctk.verify.oracle import Question
from kit.worlds import Ask, Change, Record, fit, take_out, toolkits_of

RELEASES = ("12.0", "12.6", "12.9", "13.0", "13.4")

# The two parts of a tie: `cuda-version >=13.4,<13.5.0a0 native_*`.
FIT, ANY_FIT = r"^(cuda-version \S+) .*", r"\1"
RANGE, ANY_VERSION = r"^cuda-version \S+", "cuda-version *"


@dataclass(frozen=True)
class Case:
    """Parts that are taken out, and the faults without them.

    Attributes:
        id: The purpose of the parts.
        changes: The changes that take them out. If there are several, each part alone is enough for
            the right pick.
        wrong: Scenario -> its fault without the parts (`plain`); with them, it is right.
        given: Changes that are always made: circumstances in which the parts matter.
    """

    id: str
    changes: tuple[Change, ...]
    wrong: tuple[tuple[Ask, str], ...]
    given: tuple[Change, ...] = ()


def ask(
    request: str,
    driver: str | None = None,
    gpu: str | None = None,
    *specs: str,
    subdir: str = "linux-64",
    python: str | None = None,
    pin: str | None = None,
    refused: bool = False,
) -> Ask:
    """A scenario; the specs are added to the request."""
    question = Question(request, subdir, driver, gpu, python, pin)
    return Ask(question, (request, *specs) if specs else (), refused=refused)


def number(changes: Mapping[str, int]) -> Change:
    """Adds to the build number of builds that match a regular expression.

    The result is at least zero.
    """

    def changing(record: Record) -> None:
        for pattern, change in changes.items():
            if re.search(pattern, f"{record['name']} {record['build']} {fit(record)}"):
                record["build_number"] = max(0, record["build_number"] + change)

    return changing


def single(record: Record) -> None:
    """The scheme of conda-forge, but with two builds of cuda-version."""
    if record["name"] != "cuda-version" and fit(record) == "compat":
        record.clear()
    else:
        record["depends"] = [re.sub(FIT, ANY_FIT, spec) for spec in record["depends"]]


def last_made(pattern: str) -> Change:
    """Gives all builds a timestamp, the latest to builds that match a regular expression."""

    def changing(record: Record) -> None:
        found = re.search(pattern, f"{record['name']} {record['build']} {fit(record)}")
        record["timestamp"] = 1_700_000_000_000 + (86_400_000 if found else 0)

    return changing


def only_its_minor(*packages: str) -> Change:
    """Ties packages that may be newer than the toolkit to their own minor."""

    def changing(record: Record) -> None:
        if record["name"] in packages:
            lower = f">={toolkits_of([record], record['name'])[0]},"
            record["depends"] = [
                re.sub(r"^(cuda-version )>=[\d.]+,", rf"\1{lower}", spec)
                for spec in record["depends"]
            ]

    return changing


def as_a_range(record: Record) -> None:
    """The earlier GPU bounds of native builds: from the oldest to the newest GPU, without gaps."""
    if record["name"] == "cuda-version":
        gap = r"^(__cuda_arch )==([\d.]+)\|.*==([\d.]+)$"
        record["constrains"] = [re.sub(gap, r"\1>=\2,<=\3", spec) for spec in record["constrains"]]


def newer_than_the_toolkit(package: str) -> Change:
    """The earlier range of these packages: the toolkit's major, and not older than the toolkit."""
    return take_out(package, "depends", r"^(cuda-version >=\d+)\.\d+,", r"\1,")


PYTHON_NUMBERS = {
    "311": 10,
    "312": 20,
    "313": 30,
    "314": 40,
    "314t": 4,
    "315": 50,
    "315t": 5,
}
"""What conda_build_config.yaml adds to the build number for each Python."""
NO_FEATURES = take_out(".*", "track_features")
NO_NATIVE_NUMBERS = number({" native$": -100})
SAME_NUMBER_FOR_EVERY_PYTHON = number(
    {rf" (cuda\d+_)?py{tag}_": -add for tag, add in PYTHON_NUMBERS.items()}
)
OLD_GPU, NEW_GPU, NEWEST_GPU = "7.0", "10.0", "13.0"  # V100; B200; none of the toolkits knows it
DRIVER_12_2 = ask("cuda-bindings", "12.2", "9.0"), "toolkit 12.9 compat, not 12.0 native"
GPU_TOO_OLD = "it must be refused (GPU too old), but was solved"
DRIVER_TOO_OLD = "it must be refused (driver too old), but was solved"
MUST_REFUSE = "it must be refused (None), but was solved"

CASES = [
    Case(
        "two builds of each package: a solver takes the newest package, and then its toolkit",
        (single,),
        (
            (ask("cuda-nvrtc", "13.0", "9.0"), "toolkit 13.4 compat, not 13.0 native"),
            (ask("numba-cuda", "13.0", "9.0"), "toolkit 13.4 compat, not 13.0 native"),
        ),
    ),
    Case(
        "a native build goes with the native cuda-version alone",
        (take_out("cuda-nvrtc", "depends", FIT, ANY_FIT, of="native"),),
        ((ask("cuda-nvrtc", "13.0", "9.0"), "toolkit 13.4 compat, not 13.0 native"),),
    ),
    Case(
        "the feature of a package",
        (take_out("cuda-nvrtc", "track_features"),),
        ((ask("cuda-nvrtc", "13.0", "9.0"), "toolkit 13.4 compat, not 13.0 native"),),
    ),
    Case(
        "the files of a package are its own: it pins them, and they are of its toolkit",
        (
            take_out("cuda-nvrtc", "depends", "^cuda-nvrtc-files .*", "cuda-nvrtc-files"),
            take_out("cuda-nvrtc-files", "depends", RANGE, ANY_VERSION),
        ),
        ((ask("cuda-nvrtc", pin="12.9"), "cuda-nvrtc-files 13.4 is not of toolkit 12.9"),),
    ),
    Case(
        "a group pins its members, which can be newer than the toolkit",
        (take_out("cuda-libraries", "depends", "^libcufile .*", "libcufile"),),
        ((ask("cuda-runtime", pin="13.0"), "cuda-libraries wants libcufile"),),
    ),
    Case(
        "native needs its driver",
        (take_out("cuda-version", "depends", "^__cuda ", of="native"),),
        (
            (ask("cuda-nvrtc", "13.0", "9.0"), "toolkit 13.4 native, not 13.0 native"),
            (ask("cuda-core"), "toolkit 13.4 native, not 13.4 compat"),
        ),
    ),
    Case(
        "native does not go with a GPU that it does not know",
        (take_out("cuda-version", "constrains", "^__cuda_arch ", of="native"),),
        (
            (ask("cuda-core", "13.4", OLD_GPU), "toolkit 13.4 native, not 12.9 native"),
            (ask("cuda-nvcc", "13.4", OLD_GPU), GPU_TOO_OLD),
            (ask("cuda-core", "12.6", NEW_GPU), "toolkit 12.6 native, not 12.9 compat"),
            (
                ask("cuda-nvrtc", "13.5", NEWEST_GPU, subdir="win-64"),
                "toolkit 13.4 native, not 13.4 compat",
            ),
        ),
    ),
    Case(
        "native does not go with a GPU in a gap of those that it knows",
        (as_a_range,),
        (
            (ask("cuda-core", "12.9", "8.8"), "toolkit 12.9 native, not 12.9 compat"),
            (ask("cuda-nvrtc", "13.3", "10.7"), "toolkit 13.0 native, not 13.4 compat"),
            (ask("numba-cuda", "13.4", "10.1"), "toolkit 13.4 native, not 12.9 native"),
        ),
    ),
    Case(
        "compat does not go with a driver of an older major",
        (take_out("cuda-version", "constrains", "^__cuda ", of="compat"),),
        (
            (ask("cuda-core", "11.8", "9.0"), DRIVER_TOO_OLD),
            (ask("cuda-nvcc", "12.9", "9.0"), DRIVER_TOO_OLD),
            (
                ask("cuda-core", "12.2", "9.0", subdir="linux-aarch64"),
                "toolkit 13.4 compat, not 12.9 compat",
            ),
        ),
    ),
    Case(
        "compat does not go with an older GPU than it knows",
        (take_out("cuda-version", "constrains", "^__cuda_arch ", of="compat"),),
        (
            (ask("cuda-core", "13.4", OLD_GPU, pin="13"), GPU_TOO_OLD),
            (ask("cuda-nvcc", "13.0", OLD_GPU), GPU_TOO_OLD),
        ),
    ),
    Case(
        "the feature of cuda-version",
        (take_out("cuda-version", "track_features"),),
        ((ask("cuda-core", "13.0", "9.0", pin="13"), "toolkit 13.4 compat, not 13.0 native"),),
    ),
    Case(
        "all features",
        (NO_FEATURES,),
        (
            (ask("cuda-nvrtc", "13.0", "9.0"), "toolkit 13.4 compat, not 13.0 native"),
            (
                ask("cuda-nvcc", "13.2", "9.0", subdir="linux-aarch64"),
                "toolkit 13.4 compat, not 13.0 native",
            ),
        ),
    ),
    Case(
        "within one version, native has the higher build number, where features are not heeded",
        (NO_FEATURES, NO_NATIVE_NUMBERS),
        ((ask("cuda-nvrtc", "13.4", "9.0"), "toolkit 13.4 compat, not 13.4 native"),),
        given=(last_made(" compat$"),),
    ),
    Case(
        "a CUDA major in build numbers, when CUDA 12 is built once more",
        (number({" cuda12_": -12000, " cuda13_": -13000}),),
        (
            (ask("cuda-core", "13.4", "9.0"), "toolkit 12.9 native, not 13.4 native"),
            (ask("numba-cuda"), "toolkit 12.9 compat, not 13.4 compat"),
        ),
        given=(number({" cuda12_": 1}),),
    ),
    Case(
        "the GIL in build numbers, when the free-threaded builds are made last",
        (SAME_NUMBER_FOR_EVERY_PYTHON,),
        (
            (ask("cuda-core", "13.4", "9.0"), "Python is free-threaded, not with the GIL"),
            (ask("cuda-bindings"), "Python is free-threaded, not with the GIL"),
        ),
        given=(last_made(r" cuda\d+_py\d+t_"),),
    ),
    Case(
        "libnvjitlink of 12.3 is also for the toolkits whose own Python cannot use",
        (only_its_minor("libnvjitlink"),),
        (DRIVER_12_2,),
    ),
    Case(
        "libnvfatbin of 12.4 is also for the toolkits that have none",
        (only_its_minor("libnvfatbin"),),
        (DRIVER_12_2,),
    ),
    Case(
        "libnvjitlink is not newer than the toolkit",
        (newer_than_the_toolkit("libnvjitlink"),),
        (
            (ask("cuda-core", "13.0", "9.0"), "libnvjitlink 13.4 is not of toolkit 13.0"),
            (ask("cuda-bindings", "12.2", "9.0"), "libnvjitlink 12.9 is not of toolkit 12.3"),
            (
                ask(
                    "libnvjitlink",
                    None,
                    None,
                    "libnvjitlink=13.4",
                    "cuda-version=13.0",
                    refused=True,
                ),
                MUST_REFUSE,
            ),
        ),
    ),
    Case(
        "a newer libnvjitlink is taken only where it is asked for",
        (take_out("libnvjitlink", "track_features"),),
        ((ask("cuda-core", "13.0", "9.0"), "libnvjitlink 13.4 is not of toolkit 13.0"),),
    ),
    Case(
        "a newer libnvjitlink goes with an older native toolkit",
        (
            take_out(
                "libnvjitlink",
                "depends",
                r"^(cuda-version >=\d+),<(13\.\d+)( native_\*)$",
                r"\1,<13.0\3",
            ),
        ),
        (
            (
                ask("cuda-core libnvjitlink>=13.4", "13.0", "9.0"),
                "toolkit 13.4 compat, not 13.0 native",
            ),
        ),
    ),
    Case(
        "libnvfatbin is not newer than the toolkit",
        (newer_than_the_toolkit("libnvfatbin"),),
        (
            (ask("cuda-core", "13.0", "9.0"), "libnvfatbin 13.4 is not of toolkit 13.0"),
            (ask("cuda-core", "12.0", "9.0"), "libnvfatbin 12.9 is not of toolkit 12.4"),
        ),
    ),
    Case("libcufile may be newer than the toolkit", (only_its_minor("libcufile"),), (DRIVER_12_2,)),
    Case(
        "cuda-cccl may be newer than the toolkit",
        (only_its_minor("cuda-cccl", "cuda-cccl_linux-64"),),
        ((ask("numba-cuda", "12.2", "9.0"), "toolkit 12.9 compat, not 12.0 native"),),
    ),
    Case(
        "libnvjitlink is not older than the toolkit",
        (
            take_out(
                "libnvjitlink", "depends", r"^(cuda-version >=(\d+)\S*),<[\d.]+\.0a0", r"\1,<\2.99"
            ),
        ),
        (
            (
                ask(
                    "libnvjitlink",
                    None,
                    None,
                    "libnvjitlink=13.0",
                    "cuda-version=13.4",
                    refused=True,
                ),
                MUST_REFUSE,
            ),
        ),
    ),
    Case(
        "libnvjitlink has what cuda-bindings 12 calls",
        (take_out("cuda-bindings", "depends", r"^(libnvjitlink )>=12\.3,", r"\1>=12,"),),
        ((ask("cuda-bindings", "12.2", "9.0", "libnvjitlink=12.0", refused=True), MUST_REFUSE),),
    ),
    Case(
        "cuda-nvrtc is of the toolkit's minor",
        (take_out("cuda-nvrtc", "depends", r"^cuda-version >=(\d+)\S+", r"cuda-version >=\1"),),
        (
            (ask("cuda-nvrtc", pin="13.0"), "cuda-nvrtc 13.4 is not of toolkit 13.0"),
            (ask("cuda-core", "13.0", "9.0"), "cuda-nvrtc 13.4 is not of toolkit 13.0"),
        ),
    ),
    Case(
        "cuda-core is of its CUDA major",
        (
            take_out("cuda-core", "depends", RANGE, ANY_VERSION),
            take_out("cuda-core", "depends", "^cuda-bindings .*", "cuda-bindings"),
        ),
        (
            (ask("cuda-core", pin="12"), "cuda-core cuda13 is of CUDA 13 compat: builds are mixed"),
            (
                ask(
                    "cuda-core",
                    None,
                    None,
                    "cuda-core[build=cuda12_*]",
                    "cuda-bindings=13",
                    refused=True,
                ),
                MUST_REFUSE,
            ),
        ),
    ),
    Case(
        "cuda-python and numba-cuda have cuda-core of their CUDA major",
        (
            take_out("cuda-python|numba-cuda", "depends", r"^(cuda-core \S+) .*", r"\1"),
            take_out("cuda-core", "depends", RANGE, ANY_VERSION),
            take_out("cuda-core", "depends", "^cuda-bindings .*", "cuda-bindings"),
        ),
        (
            (
                ask(
                    "cuda-python",
                    None,
                    None,
                    "cuda-python=13",
                    "cuda-core[build=cuda12_*]",
                    refused=True,
                ),
                MUST_REFUSE,
            ),
            (
                ask("numba-cuda", pin="12.6"),
                "cuda-core cuda13 is of CUDA 13 compat: builds are mixed",
            ),
        ),
    ),
    Case(
        "builds are for one kind of Python",
        (take_out("cuda-bindings", "depends", "^python_abi "),),
        (
            (
                ask("cuda-bindings", "13.4", "9.0", python="3.13t"),
                "it must be refused (not published for the Python), but was solved",
            ),
        ),
    ),
    Case(
        "cuda-arch does not go with an older GPU",
        (take_out("cuda-arch", "constrains", "^__cuda_arch "),),
        ((ask("cuda-core", "13.0", "7.5", "cuda-arch=8.0", refused=True), MUST_REFUSE),),
    ),
]


def plain(fault: str) -> str:
    """The fault without the parts that change with every new version of a package."""
    fault = re.sub(
        r"^Python is cp\d+t, not cp\d+$", "Python is free-threaded, not with the GIL", fault
    )
    fault = re.sub(r"^(\S+) \S+ (cuda\d+)_\S+", r"\1 \2", fault)
    fault = re.sub(r"(wants \S+) .*", r"\1", fault)
    return re.sub(r"(\d+\.\d+)\.\d+", r"\1", fault)
