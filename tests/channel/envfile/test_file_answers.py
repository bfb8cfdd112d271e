"""What the lines of people's files are here, and what their files give on four machines.

``answers.txt`` has the answers. Run as a program, this file writes them anew; review each changed
line: ``PYTHONPATH=tests .venv/bin/python tests/channel/envfile/test_file_answers.py``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from ctk.core.checkout import Workspace, workspace
from ctk.envfile.answer import answers, cuda_lines
from ctk.envfile.model import EnvironmentFile, FileEnvironment
from ctk.envfile.read import read_file
from ctk.envfile.row import Row
from ctk.envfile.solved import Solved, solve_lines
from ctk.plan.plan import write_repodata
from ctk.solve.advice import CheckoutCatalogue, checkout_of
from ctk.solve.channels import universe
from ctk.solve.solve import Scenario, channel_url
from ctk.solve.why import find_reason
from kit.file_world import file_world

FILES = workspace().root / "tests" / "unit" / "envfile" / "files"
GOLDEN = Path(__file__).with_name("answers.txt")
MACHINES = (("13.0", "9.0"), ("13.0", "7.0"), ("12.4", "8.0"), (None, None))
_RESULT = "    "  # how the last line of a machine begins
HEAD = """\
# What the lines about CUDA of each file in files/ are on linux-64, with the default set and a
# stand-in for conda-forge behind it: the answer, what it is, and behind `->` what to write.
# Of a file with several environments, those with different lines about CUDA. For a machine
# (driver and GPU), only what is different there; then what was solved (`whole`, or `cuda`: its
# lines about CUDA), and the toolkit or the kind of reason.
#
# Written by `PYTHONPATH=tests .venv/bin/python tests/channel/envfile/test_file_answers.py`; each
# line was reviewed.
"""


@pytest.fixture(scope="module")
def world(project: Workspace, tmp_path_factory: pytest.TempPathFactory) -> CheckoutCatalogue:
    return file_world(project, tmp_path_factory.mktemp("files"))


def paths() -> list[Path]:
    return sorted(path for path in FILES.iterdir() if path.name[:2].isdigit())


def environments(file: EnvironmentFile, world: CheckoutCatalogue) -> Iterator[FileEnvironment]:
    """The environments with different lines about CUDA; the default one always."""
    seen: set[tuple[str, ...]] = set()
    for environment in file.environments:
        texts = tuple(line.text for line in cuda_lines(environment.lines, world))
        if environment is file.environments[0] or (texts and texts not in seen):
            yield environment
        seen.add(texts)


def blocks(
    path: Path, world: CheckoutCatalogue, machines: Sequence[tuple[str | None, str | None]]
) -> Iterator[str]:
    """The lines of the golden file for a file, on some machines."""
    file = read_file(path)
    for environment in environments(file, world):
        name = f" [{environment.name}]" if len(file.environments) > 1 else ""
        before: list[str] = []
        yield f"{path.name}{name}"
        for driver, gpu in machines:
            machine = Scenario((), world.subdir, driver, gpu)
            rows = answers(environment.lines, world, machine)
            shown = [line_of(row, world) for row in rows]
            if before:
                yield from (line for line in shown if line not in before)
            else:
                yield from shown
                before = shown
            solved = solve_lines(environment.lines, rows, world, machine)
            yield f"    {driver or 'none'}:{gpu or '-'}  {result(solved)}"


def line_of(row: Row, world: CheckoutCatalogue) -> str:
    base = channel_url(world.channels[-1]).rstrip("/")
    line = f"  {row.line.number}: {row.line.text} | {row.answer}: {row.words}"
    for specs in (row.by_channel, row.specs):
        if specs:
            line += f" -> {', '.join(specs)}"
    if row.specs == ():
        line += " -> (nothing)"
    if row.lock:
        line += f" or {row.lock}"
    return line.replace(f"{base}::", "conda-forge::")


def result(solved: Solved) -> str:
    built = " as if built" if solved.is_planned else ""
    if not solved.scenario.specs:
        return "nothing to solve"
    if solved.pick is None:
        reason = find_reason(solved.scenario, solved.catalogue)
        return f"{solved.part}{built}: none ({reason.kind})"
    toolkit = f"{solved.pick.toolkit} {solved.pick.fit}".strip() or "no toolkit"
    return f"{solved.part}{built}: {toolkit}"


def golden() -> dict[str, list[str]]:
    """File -> its lines."""
    found: dict[str, list[str]] = {}
    for line in GOLDEN.read_text().splitlines():
        if line.startswith("#") or not line:
            continue
        if not line.startswith(" "):
            name = line.split(" [")[0]
        found.setdefault(name, []).append(line)
    return found


def of_first_machine(lines: Iterable[str]) -> Iterator[str]:
    """Of the lines of a file, those of the first machine."""
    is_first = True
    for line in lines:
        is_first = is_first or not line.startswith(" ")
        if is_first:
            yield line
        if line.startswith(_RESULT):
            is_first = False


@pytest.mark.parametrize("path", paths(), ids=lambda path: path.name)
def test_the_answers_are_those_that_were_reviewed(path: Path, world: CheckoutCatalogue) -> None:
    expected = of_first_machine(golden()[path.name])
    assert list(blocks(path, world, MACHINES[:1])) == list(expected)


@pytest.mark.sweep
@pytest.mark.parametrize("path", paths(), ids=lambda path: path.name)
def test_the_answers_on_all_machines_are_those_that_were_reviewed(
    path: Path, world: CheckoutCatalogue
) -> None:
    """Each run has the first machine of each file, above; each night has all, in a minute."""
    assert list(blocks(path, world, MACHINES)) == golden()[path.name]


# --- a channel that is not asked


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cuda-toolkit=13.0.0", "; here each toolkit has one patch, 13.0.3"),
        ("cuda-core=0.5.0", ""),
    ],
)
def test_the_patch_that_is_here_is_said_where_conda_forge_has_another(
    text: str, words: str, world: CheckoutCatalogue, tmp_path: Path
) -> None:
    base = write_repodata(universe(), tmp_path / "base")
    alone = CheckoutCatalogue([world.channels[0], base], world.subdir, checkout_of(world))
    row = asked(text, alone, tmp_path)
    version = text.partition("=")[2]
    known = f"{version} is in conda-forge, which is not the base channel here"
    known = f"{known}: name it with --base conda-forge"
    assert (row.answer, row.words) == ("elsewhere", f"{known}{words}")


# --- lines that people write


def asked(text: str, world: CheckoutCatalogue, folder: Path, tool: str = "conda") -> Row:
    """The row of a line that stands alone in an environment.yml."""
    indent = "  - pip:\n    - " if tool == "pip" else "  - "
    path = folder / "environment.yml"
    path.write_text(f'channels: [conda-forge]\ndependencies:\n{indent}"{text}"\n')
    machine = Scenario((), world.subdir, "13.0", "9.0")
    (row,) = answers(read_file(path).environments[0].lines, world, machine)
    return row


@pytest.mark.parametrize(
    ("text", "answer", "specs"),
    [
        ("cuda-nvrtc-dev", "here", None),
        ("cuda-toolkit==13.0.0", "other-version", ("cuda-toolkit", "cuda-version=13.0")),
        ("cudatoolkit=11.8", "nowhere", ("cuda-version=12", "cuda-libraries")),
        ("cudatoolkit=11.1", "nowhere", ("cuda-version=12", "cuda-libraries")),
        ("cudatoolkit", "other-name", ("cuda-version", "cuda-libraries")),
        ("pytorch-cuda=12.1", "other-name", ("cuda-version=12",)),
        ("nvidia::cuda-nvcc", "other-name", ("cuda-nvcc",)),
        ("nvidia/label/cuda-13.0.0::cuda-nvrtc", "other-name", ("cuda-nvrtc",)),
        ("cuda-version=13.1", "not-built", None),
        ("cuda-version=11.8", "nowhere", ("cuda-version=12",)),
        ("cuda-version>=11.8", "here", None),
        ("cuda-version=13.9", "other-version", ("cuda-version=13",)),
        ("cuda-nvcc=12.9", "hidden", None),
        ("cuda-compiler", "base", None),
        ("cudnn=8.1", "other-version", ("cudnn=8",)),
        ("cudnn=7.6", "other-version", ("cudnn",)),
        ("cudf=26.8", "base", None),
        ("cudf=26.6", "hidden", None),
        ("nvidia-driver", "nowhere", None),
        ("tensorflow-gpu", "base", None),
        ("__cuda>=12", "here", None),
    ],
)
def test_what_people_write_for_conda(
    text: str,
    answer: str,
    specs: tuple[str, ...] | None,
    world: CheckoutCatalogue,
    tmp_path: Path,
) -> None:
    row = asked(text, world, tmp_path)
    assert (row.answer, row.specs) == (answer, specs), row.words


@pytest.mark.parametrize(
    ("text", "answer", "specs"),
    [
        ("nvidia-cublas-cu12", "pip", ("libcublas", "cuda-version=12")),
        ("jax[cuda12]", "pip", ("jax", "cuda-version=12")),
        ("jax", "left", None),
        ("torch", "pip", ("pytorch",)),
        ("cupy-cuda12x", "pip", ("cupy", "cuda-version=12")),
        ("numba-cuda[cu12]", "pip", ("numba-cuda", "cuda-version=12")),
        ("tensorflow[and-cuda]", "pip", ("tensorflow",)),
        ("onnxruntime-gpu", "pip", ("onnxruntime",)),
        ("vllm", "left", None),
    ],
)
def test_what_people_write_for_pip(
    text: str,
    answer: str,
    specs: tuple[str, ...] | None,
    world: CheckoutCatalogue,
    tmp_path: Path,
) -> None:
    row = asked(text, world, tmp_path, "pip")
    assert (row.answer, row.specs) == (answer, specs), row.words


def test_the_specs_for_a_hidden_package_find_it(world: CheckoutCatalogue, tmp_path: Path) -> None:
    row = asked("cuda-nvcc=12.9", world, tmp_path)
    machine = Scenario(row.by_channel, world.subdir, "13.0", "9.0")
    pick = world.pick(machine)
    assert pick and pick.version("cuda-nvcc").startswith("12.9") and pick.fit == "native"
    # One of them less, and it is hidden again.
    for spec in row.by_channel[1:]:
        fewer = tuple(other for other in row.by_channel if other != spec)
        assert not world.pick(Scenario(fewer, world.subdir, "13.0", "9.0")), spec


def test_specs_in_the_place_of_lines_have_a_solution_together(
    world: CheckoutCatalogue, tmp_path: Path
) -> None:
    """Each row is proved alone; nvcc of conda-forge beside libNVVM of here is not enough."""
    path = tmp_path / "environment.yml"
    lines = ["cuda-version=12.9", "cuda-nvcc", "cuda-nvvm", "cuda-nvrtc", "numba-cuda"]
    path.write_text("dependencies:\n" + "".join(f"  - {line}\n" for line in lines))
    environment = read_file(path).environments[0]
    machine = Scenario((), world.subdir, "13.0", "9.0")
    rows = answers(environment.lines, world, machine)
    assert {row.line.name: row.answer for row in rows} == {
        "cuda-version": "here",
        "cuda-nvcc": "hidden",
        "cuda-nvvm": "hidden",
        "cuda-nvrtc": "here",
        "numba-cuda": "here",
    }
    solved = solve_lines(environment.lines, rows, world, machine)
    assert solved.pick and (solved.pick.toolkit, solved.pick.fit) == ("12.9", "native")


def main(folder: Path, names: Sequence[str] = ()) -> None:
    world = file_world(workspace(), folder)
    lines = [HEAD]
    for path in paths():
        lines += [*blocks(path, world, MACHINES), ""]
        print(path.name, flush=True)
    GOLDEN.write_text("\n".join(lines))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        main(Path(made))
