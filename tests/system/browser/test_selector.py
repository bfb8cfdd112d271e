"""The install selector as a reader uses it: choose, paste, read the answer, which is what `ctk
solve` says.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from browsing import HEIGHT, SCHEMES, WIDTHS, Watched, axe, watched
from playwright.sync_api import Browser, Page, expect
from rattler import MatchSpec

from ctk.solve.machine import impossible
from ctk.verify.oracle import version

CTK = Path(sys.executable).with_name("ctk")
PRINTED = Path(__file__).with_name("nvidia-smi")
COMBINATIONS = 240
NO_ANSWER = "There is no answer for this choice"
SEED = 7
WITH_ASKED = ("cuda-gpu", "cuda-gpu-builds", "cuda-native")
"""What the packages that ask for CUDA builds bring to a command."""

SMI_580 = """\
Sun Nov 22 08:16:57 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 580.95.05              Driver Version: 580.95.05      CUDA Version: 13.0     |
+-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
|=========================================+========================+======================|
|   0  NVIDIA H200                    On  |   00000000:63:00.0 Off |                    0 |
| N/A   26C    P0            139W /  700W |       0MiB / 143771MiB |      0%      Default |
+-----------------------------------------+------------------------+----------------------+
|   1  Tesla V100-SXM2-16GB           On  |   00000000:68:00.0 Off |                    0 |
+-----------------------------------------+------------------------+----------------------+
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|    0   N/A  N/A            1234      C   python                                  500MiB |
+-----------------------------------------------------------------------------------------+
"""
# Since driver 610 the first line has other words; long names are cut.
SMI_610 = """\
| NVIDIA-SMI 610.43.02              KMD Version: 610.43.02     CUDA UMD Version: 13.3     |
|   0  NVIDIA GeForce RTX 5070 ...    Off |   00000000:02:00.0  On |                  N/A |
"""


# Memory that a process uses is not known under WDDM: the row ends as that of a GPU does.
WINDOWS = """\
| NVIDIA-SMI 552.22                 Driver Version: 552.22         CUDA Version: 12.4     |
|   0  NVIDIA GeForce RTX 4070      WDDM  |   00000000:01:00.0  On |                  N/A |
| Processes:                                                                              |
|    0   N/A  N/A      1840    C+G   C:\\Windows\\explorer.exe                     N/A      |
"""

# JetPack 6: a GPU without a bus.
JETSON = """\
| NVIDIA-SMI 540.4.0                Driver Version: 540.4.0        CUDA Version: 12.6     |
|   0  Orin (nvgpu)                  N/A  | N/A              N/A |                  N/A |
| N/A   N/A  N/A               N/A /  N/A | Not Supported        |     N/A          N/A |
| Processes:                                                                            |
|    0   N/A  N/A      1840      G   /usr/lib/xorg/Xorg                         N/A      |
"""
NO_COMMAND = "'nvidia-smi' is not recognized as an internal or external command"

# A GPU for mining, which has no name in the list.
UNLISTED = SMI_610.replace("GeForce RTX 5070 ...   ", "CMP 50HX               ")

KEPLER = """\
| NVIDIA-SMI 470.256.02   Driver Version: 470.256.02   CUDA Version: 11.4     |
|   0  Tesla K80           Off  | 00000000:00:1E.0 Off |                    0 |
"""


@dataclass(frozen=True)
class Chosen:
    """A combination, as the page's fields have it."""

    package: str
    platform: str
    driver: str
    gpu: str
    python: str
    pin: str

    @property
    def command(self) -> list[str]:
        """The same for `ctk solve`."""
        words = [self.package, *([f"cuda-version={self.pin}"] if self.pin else [])]
        words += ["--python", self.python] if self.python else []
        words += ["--platform", self.platform, "--driver", self.driver]
        return words + (["--arch", self.gpu] if self.gpu and self.driver != "none" else [])


@pytest.fixture(scope="session")
def offered(site_folder: Path) -> dict[str, Any]:
    """What the page offers."""
    text = (site_folder / "index.html").read_text()
    return json.loads(text.split('id="offered">')[1].split("</script>")[0])


@pytest.fixture(scope="session")
def solved(offered: dict[str, Any]) -> dict[Chosen, dict[str, Any]]:
    """Random combinations, with what `ctk solve --explain` says of each: made before the browser
    runs.
    """
    chance = random.Random(SEED)
    combinations: set[Chosen] = set()
    while len(combinations) < COMBINATIONS:
        platform = chance.choice(list(offered["platforms"]))
        axes = offered["platforms"][platform]
        driver, gpu = (chance.choice(axes[name]) for name in ("drivers", "gpus"))
        if impossible(driver, gpu):  # nobody is asked about such a machine
            continue
        package = chance.choice(axes["packages"])
        python = chance.choice(axes["pythons"])
        combinations.add(
            Chosen(
                package,
                platform,
                driver or "none",
                (gpu or "") if driver else "",
                python if package in axes["of_python"] else "",
                chance.choice(axes["pins"]),
            )
        )
    ordered = sorted(combinations, key=lambda one: one.command)
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(ordered, pool.map(_solve, ordered), strict=True))


def _solve(chosen: Chosen, *asks: str) -> dict[str, Any]:
    done = subprocess.run(
        [CTK, "solve", *asks, *chosen.command, "--explain", "--json"],
        capture_output=True,
        text=True,
    )
    assert done.returncode in (0, 10), done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="session")
def running(solved: dict[Chosen, dict[str, Any]], site_folder: Path, browser: Browser) -> Browser:
    """The browser, after everything was solved."""
    return browser


@pytest.fixture
def front(running: Browser, site_folder: Path) -> Iterator[Watched]:
    """The front page in a wide light window; then nothing may have failed."""
    with watched(running, WIDTHS["wide"], "light") as seen:
        yield seen.open(site_folder / "index.html")
        assert seen.trouble == []


def take(page: Page, row: str, value: str) -> None:
    """Presses a button of a row."""
    page.check(f"input[name={row}][value='{value}']")


def choose(page: Page, chosen: Chosen) -> None:
    """Chooses everything as a reader does, the platform first: it decides what the others offer."""
    take(page, "platform", chosen.platform)
    take(page, "machine", "none" if chosen.driver == "none" else "choose")
    if chosen.driver != "none":
        page.select_option("#driver", chosen.driver)
        page.fill("#gpu", chosen.gpu)
    page.fill("#package", chosen.package)
    page.evaluate("document.getElementById('more').open = true")
    if page.locator("#python").is_visible():
        take(page, "python", chosen.python)
    take(page, "pin", chosen.pin)
    asked = json.loads(page.locator("#questions").get_attribute("data-of") or "")
    driver = None if chosen.driver == "none" else chosen.driver
    right = (chosen.package, chosen.platform, driver, chosen.gpu or None, chosen.python, chosen.pin)
    assert (
        tuple(asked[name] for name in ("package", "platform", "driver", "gpu", "python", "pin"))
        == right
    )


def shown(page: Page) -> dict[str, Any]:
    """What the page says."""
    _settle(page)
    return page.evaluate(r"""() => {
          const all = (place) => [...document.querySelectorAll(place)];
          const texts = (place) => all(place).map((part) => part.textContent);
          const text = (id) => document.getElementById(id).textContent;
          const parts = text("command").match(/^(.*?)(?: &&)?\n(\S+ activate \S+|pixi shell)$/s);
          const [command, activation] = parts?.slice(1) ?? [text("command"), text("then")];
          const state = document.getElementById("answer").dataset.state;
          return {
            state,
            title: text("title"),
            summary: text("summary"),
            why: texts(state === "solved" ? "#why li" : "#todo li"),
            packages: [...document.querySelectorAll("#packages-picked tr")].map(
              (row) => [...row.cells].slice(0, 4).map((cell) => cell.textContent)),
            command,
            then: activation,
          };
        }""")


def machine(page: Page) -> tuple[str, str, str]:
    """Which button of the row of machines is pressed, the driver and the GPU."""
    pressed = page.evaluate("document.querySelector('input[name=machine]:checked').value")
    return pressed, page.input_value("#driver"), page.input_value("#gpu")


def test_the_untouched_page_assumes_no_driver_and_pins_nothing(
    front: Watched, offered: dict[str, Any]
) -> None:
    page = front.page
    seen = shown(page)
    assert seen["state"] == "detected" and machine(page) == ("detect", "", "")
    channels = [word for channel in offered["channels"] for word in ("--channel", channel, "\\")]
    words = ["conda", "create", "--name", "gpu", "\\", *channels]
    words += [
        "--override-channels",
        "\\",
        "cuda-gpu",
        "cuda-core",
    ]
    assert seen["command"].split() == words and seen["then"] == "conda activate gpu"
    assert seen["command"].count("\\\n  ") == len(offered["channels"]) + 2
    expect(page.locator("#command")).to_have_text(f"{seen['command']} &&\nconda activate gpu")
    expect(page.locator("#install").get_by_role("button", name="Copy")).to_have_count(1)
    assert "OVERRIDE" not in page.locator("main").inner_text() and "driver=" not in page.url
    take(page, "client", "pixi")
    command = shown(page)["command"]
    assert command.startswith("pixi init gpu --channel ") and command.endswith(
        "--auto-detect\npixi add cuda-core"
    )
    expect(page.locator("#command")).to_have_text(f"{command}\npixi shell")
    expect(page.locator("#install").get_by_role("button", name="Copy")).to_have_count(1)
    take(page, "machine", "none")
    assert tomllib.loads(shown(page)["command"])["workspace"]["platforms"] == ["linux-64"]


def test_on_a_phone_the_untouched_page_shows_all_of_the_command(
    running: Browser, site_folder: Path
) -> None:
    with watched(running, WIDTHS["narrow"], "light") as seen:
        seen.open(site_folder / "index.html")
        box = seen.page.locator("#command").bounding_box()
        assert box["y"] + box["height"] < HEIGHT
        wider = (
            "document.getElementById('command').scrollWidth -"
            " document.getElementById('command').clientWidth"
        )
        assert seen.page.evaluate(wider) == 0, "its lines are wrapped"
        take(seen.page, "machine", "choose")
        for place in ("#package", "#paste", "#driver"):
            seen.page.locator(place).scroll_into_view_if_needed()
            title = seen.page.locator("#title").bounding_box()
            assert title["y"] > 0 and title["y"] + title["height"] < HEIGHT, (
                f"the answer is in sight at {place}"
            )


def test_what_nvidia_smi_prints_is_pasted_into_the_page_as_it_opens(front: Watched) -> None:
    page, note = front.page, front.page.locator("#paste-note")
    expect(page.locator("#driver")).to_be_hidden()
    page.fill("#paste", SMI_580)
    assert machine(page) == ("choose", "13.0", "7.0")
    expect(page.locator("#driver")).to_be_visible()
    expect(note).to_contain_text("supports CUDA 13.0")
    take(page, "machine", "detect")
    expect(page.locator("#paste")).to_be_visible()
    expect(note).to_be_hidden()


@pytest.mark.parametrize(
    ("client", "title"),
    [
        ("conda", "conda finds the driver, and takes the CUDA that fits"),
        ("pixi", "pixi finds the driver and the GPU"),
    ],
)
def test_until_a_driver_is_chosen_the_head_says_what_the_command_does(
    front: Watched, client: str, title: str
) -> None:
    page = front.page
    take(page, "client", client)
    before = shown(page)
    take(page, "machine", "choose")
    seen = shown(page)
    assert before["title"] == seen["title"] == title and before["command"] == seen["command"]
    assert "choose the CUDA version of the driver" in seen["summary"]
    assert 'take "choose"' not in seen["summary"], "it is chosen"


def test_the_edge_of_the_head_says_whether_everything_works(front: Watched) -> None:
    edges = []
    for pin in ("", "13.4"):
        choose(front.page, Chosen("cuda-core", "linux-64", "13.0", "9.0", "", pin))
        shown(front.page)
        colour = "getComputedStyle(document.getElementById('verdict')).borderTopColor"
        edges.append(front.page.evaluate(colour))
    choose(front.page, Chosen("cuda-core", "linux-64", "12.6", "9.0", "", "13.4"))
    assert shown(front.page)["state"] == "refused"
    native, compat = edges
    assert native != compat == front.page.evaluate(colour)


def test_every_answer_is_what_ctk_solve_says(
    front: Watched, solved: dict[Chosen, dict[str, Any]]
) -> None:
    wrong: list[Any] = []
    states = set()
    for chosen, truth in solved.items():
        choose(front.page, chosen)
        seen = shown(front.page)
        states.add(seen["state"])
        if "error" in truth:
            right = _refused(truth["error"])
        else:
            right = {
                "state": "solved",
                "why": truth["explain"],
                "packages": [
                    [p["name"], p["version"], p["build"], p["channel"]] for p in truth["packages"]
                ],
            }
            number = len(seen["packages"])
            # The command asks for CUDA builds before the package: its count and table have these.
            own = {package["name"] for package in truth["packages"]}
            seen["packages"] = [
                package
                for package in seen["packages"]
                if package[0] in own or package[0] not in WITH_ASKED
            ]
            if f"{number} package" not in seen["summary"] or not seen["title"].startswith(
                _toolkit(truth, chosen.driver)
            ):
                wrong.append((chosen, seen["title"], seen["summary"]))
        wrong += [
            (chosen, name, seen[name], value)
            for name, value in right.items()
            if not _same(seen[name], value)
        ]
    assert wrong == []
    assert len(solved) >= 200
    assert states >= {"solved", "refused"}


AS_COPIED = (
    ("cuda-core", "12.4", "8.0", "", "cuda-native"),
    ("cuda-core", "13.0", "9.0", "13.4", "cuda-gpu"),
    ("cuda-nvcc", "13.0", "9.0", "", "cuda-native"),
    ("numba-cuda", "13.0", "7.0", "", "cuda-native"),
    ("cuda-arch", "13.0", "9.0", "12", "cuda-native"),
    ("cuda-core", "none", "", "", ""),
)


@pytest.fixture(scope="session")
def solved_as_copied() -> dict[Chosen, dict[str, Any]]:
    """What `ctk solve` gives for all that a command asks for."""
    found = {}
    for package, driver, gpu, pin, asks in AS_COPIED:
        chosen = Chosen(package, "linux-64", driver, gpu, "", pin)
        found[chosen] = _solve(chosen, *filter(None, [asks]))
    return found


def test_the_count_and_the_table_are_of_the_line_that_is_copied(
    solved_as_copied: dict[Chosen, dict[str, Any]], front: Watched
) -> None:
    for (*_, asks), (chosen, truth) in zip(AS_COPIED, solved_as_copied.items(), strict=True):
        choose(front.page, chosen)
        take(front.page, "client", "conda")
        seen = shown(front.page)
        assert seen["command"].split("\\\n  ")[-1].startswith(f"{asks} {chosen.package}".lstrip())
        right = [[p["name"], p["version"], p["build"], p["channel"]] for p in truth["packages"]]
        assert seen["packages"] == right
        assert f": {len(right)} packages, " in seen["summary"]
    choose(front.page, Chosen("cuda-core", "linux-64", "13.0", "9.0", "", "13.4"))
    number = len(shown(front.page)["packages"])
    take(front.page, "client", "pixi")  # which sees the driver, so nothing asks for CUDA builds
    assert number - len(shown(front.page)["packages"]) == 2


def test_a_machine_that_cannot_exist_is_told_why(front: Watched) -> None:
    choose(front.page, Chosen("cuda-core", "linux-64", "13.1", "7.0", "", ""))
    seen = shown(front.page)
    assert seen["state"] == "refused" and seen["title"].startswith(
        "No driver for CUDA 13.1 runs a GPU 7.0: R580"
    )
    assert seen["summary"] == "There is no such machine, so nothing was solved for it."
    assert seen["why"] == ["Choose another driver or GPU."]
    expect(front.page.locator("#install")).to_be_hidden()


NVCC_ELSEWHERE = "Take nvcc from conda-forge: this channel's does not fit"


def _refused(error: dict[str, Any]) -> dict[str, Any]:
    """What the page says where `ctk solve` has an error."""
    cause, steps = error["cause"].splitlines()[0], _on_the_page(error["next"])
    if "conda-forge has nvcc" not in error["next"]:
        return {"state": "refused", "title": cause, "why": steps}
    return {
        "state": "detected",
        "title": NVCC_ELSEWHERE,
        "summary": "The command takes nvcc of CUDA 12 from conda-forge, and the toolkit from this"
        f" channel. Why this channel's does not fit: {cause}.",
        "why": [f"Or {step}" for step in steps],
    }


def _on_the_page(step: str) -> list[str]:
    """The next step of `ctk solve` as the page says it.

    It has no options, and a command for conda-forge's nvcc.
    """
    step = re.sub(
        r"state the driver of the machine, as in --driver (\S+\d)",
        r"choose the driver of the machine, for CUDA \1 or newer",
        step.replace("`", ""),
    )
    step = re.sub(
        r"name a base channel that has (\S+) with --base",
        r"the base channel lacks \1: the channel's keeper can name conda-forge as base",
        step,
    )
    return [line for line in step.splitlines() if not line.startswith("conda-forge has nvcc")]


def _same(shown: object, right: object) -> bool:
    """Whether two texts are the same, apart from a capital at the beginning."""
    if isinstance(shown, list) and isinstance(right, list):
        return len(shown) == len(right) and all(map(_same, shown, right))
    return shown == right or (
        f"{shown}"[:1].lower() + f"{shown}"[1:] == f"{right}"[:1].lower() + f"{right}"[1:]
    )


def _toolkit(truth: dict[str, Any], driver: str) -> str:
    if not truth["toolkit"]:
        return "No CUDA toolkit is needed"
    versions = {package["name"]: package["version"] for package in truth["packages"]}
    nvjitlink = versions.get("libnvjitlink", "0.0")
    works = ""
    if truth["fit"] == "native":
        is_newer = version(nvjitlink)[:2] > version(driver)
        works = " works on this machine" if is_newer else ": everything works on this machine"
    return f"CUDA {truth['toolkit']}{works}"


def _settle(page: Page) -> None:
    """Waits until the answer is that for what is chosen."""
    page.wait_for_function(
        "() => document.getElementById('answer').dataset.of ==="
        " document.getElementById('questions').dataset.of"
    )


def test_the_commands_ask_for_what_was_solved(front: Watched, offered: dict[str, Any]) -> None:
    axes = offered["platforms"]["linux-64"]
    python = axes["pythons"][-1]
    chosen = Chosen("cuda-core", "linux-64", "13.0", "9.0", python, "13.0")
    choose(front.page, chosen)
    asked = [f"cuda-version={chosen.pin}", f"python={python}"]
    for client in ("conda", "mamba"):
        take(front.page, "client", client)
        command = shown(front.page)["command"]
        assert command.startswith(f"{client} create --name gpu \\\n  --channel ")
        assert command.endswith(
            f"--override-channels \\\n  cuda-native cuda-core {' '.join(asked)}"
        )
        assert [
            word for word in command.split() if "://" in word or word == "conda-forge"
        ] == offered["channels"]
    take(front.page, "client", "pixi")
    seen = shown(front.page)
    expect(front.page.locator("#save")).to_contain_text("pixi.toml")
    assert seen["then"] == "pixi install\npixi shell" and "cuda-gpu" not in seen["command"]
    manifest = tomllib.loads(seen["command"])
    assert manifest["workspace"]["channels"] == offered["channels"]
    assert manifest["workspace"]["platforms"] == [
        {"platform": "linux-64", "cuda": {"driver": "13.0", "arch": "9.0"}}
    ]
    specs = [MatchSpec(f"{name} {value}") for name, value in manifest["dependencies"].items()]
    right = [str(MatchSpec(text)) for text in ("cuda-native *", "cuda-core *", *asked)]
    assert [str(spec) for spec in specs] == right


def added(page: Page) -> str:
    """The command that adds the package to an environment, after it was opened."""
    shown(page)
    if not page.locator("#later").get_attribute("open"):
        page.locator("#later").evaluate("details => details.open = true")
    return page.locator("#add").text_content() or ""


def test_what_adds_to_an_environment_names_what_its_client_forgets(
    front: Watched, offered: dict[str, Any]
) -> None:
    """conda's default solver may remove what is named again.

    Mamba does not know what was asked for.
    """
    page, words = front.page, front.page.locator("#add-words")
    choose(page, Chosen("cuda-core", "linux-64", "13.0", "9.0", "", ""))
    for client, end in (("conda", "  cuda-core"), ("mamba", "  cuda-native cuda-core")):
        take(page, "client", client)
        assert added(page).startswith(f"{client} install --name gpu \\\n  --channel ")
        assert added(page).endswith(f"--override-channels \\\n{end}")
    expect(words).to_contain_text("Leave it out if the environment has a compat one")
    take(page, "client", "pixi")
    here = " ".join(offered["channels"])
    assert added(page) == f"pixi workspace channel add --prepend {here}\npixi add cuda-core"
    expect(words).to_have_text(re.compile("^The workspace must state its driver"))
    # Compat, and no driver: there is nothing that could stay native.
    choose(page, Chosen("cuda-core", "linux-64", "13.0", "9.0", "", "13.4"))
    take(page, "client", "mamba")
    assert added(page).endswith("\\\n  cuda-core cuda-version=13.4")
    expect(words).to_be_empty()
    take(page, "machine", "none")
    assert added(page).endswith("\\\n  cuda-core cuda-version=13.4")


def test_where_the_machine_is_not_known_what_is_added_may_not_make_the_toolkit_compat(
    front: Watched,
) -> None:
    page = front.page
    page.fill("#package", "pytorch")
    for client in ("conda", "mamba"):
        take(page, "client", client)
        assert added(page).endswith(" cuda-native pytorch")
        expect(page.locator("#add-words")).to_contain_text("cuda-native keeps the toolkit native")
    take(page, "client", "pixi")
    assert added(page).endswith("\npixi add cuda-native pytorch")


def test_on_windows_a_command_is_one_line_for_every_shell(
    running: Browser, site_folder: Path, tmp_path: Path
) -> None:
    """PowerShell and cmd continue lines in different ways.

    The channel here has no Windows: its platform is renamed.
    """
    shutil.copytree(site_folder / "assets", tmp_path / "assets")
    page = (site_folder / "index.html").read_text().replace("linux-64", "win-64")
    (tmp_path / "index.html").write_text(page)
    with watched(running, WIDTHS["wide"], "light") as seen:
        seen.open(tmp_path / "index.html")
        command = shown(seen.page)["command"]
        assert "\n" not in command and "\\" not in command
        expect(seen.page.locator("#command")).to_have_text(f"{command}\nconda activate gpu")
        assert command.startswith("conda create --name gpu --channel ") and command.endswith(
            " cuda-gpu cuda-core"
        )


def test_a_client_that_sees_no_gpu_is_told_the_pin(front: Watched) -> None:
    choose(front.page, Chosen("cuda-core", "linux-64", "13.0", "7.0", "", ""))
    note = front.page.locator("#unseen")
    expect(note).to_have_text(
        re.compile(r"^cuda-version=12\.9 is for GPU 7\.0: .*, and would take CUDA 13\.0\.$")
    )
    assert shown(front.page)["command"].endswith("\\\n  cuda-native cuda-core cuda-version=12.9")
    take(front.page, "client", "pixi")
    shown(front.page)
    expect(note).to_be_hidden()


def test_who_has_a_gpu_that_the_client_does_not_see_is_told_the_pin(front: Watched) -> None:
    note = front.page.locator("#unseen")
    shown(front.page)
    for client, why in (
        ("conda", "without the plugin nvidia-virtual-packages"),
        ("mamba", "does not see the GPU"),
    ):
        take(front.page, "client", client)
        expect(note).to_contain_text(
            "For a GPU older than compute capability 7.5, such as V100, add cuda-version=12: "
        )
        expect(note).to_contain_text(why)
    take(front.page, "machine", "choose")
    front.page.fill("#gpu", "V100")
    expect(note).to_contain_text("cuda-version=12 is for GPU 7.0: ")
    assert shown(front.page)["command"].endswith("\\\n  cuda-gpu cuda-core cuda-version=12")


@pytest.mark.parametrize(("driver", "older"), [("12.6", False), ("13.0", True), ("13.4", False)])
def test_an_answer_for_any_gpu_says_where_an_old_one_gets_another(
    front: Watched, driver: str, older: bool
) -> None:
    """No driver newer than 13.0 runs a GPU that its toolkit does not know.

    An older driver's toolkit knows them all.
    """
    choose(front.page, Chosen("cuda-core", "linux-64", driver, "", "", ""))
    limit = ", if its GPU has compute capability 7.5 or newer" if older else ""
    assert shown(front.page)["title"].endswith(f": everything works on this machine{limit}")
    expect(front.page.locator("#unseen")).to_contain_text("add cuda-version=12" if older else "")
    assert front.page.locator("#unseen").is_visible() is older


def test_an_answer_for_any_gpu_says_where_a_new_one_gets_another(front: Watched) -> None:
    """A driver for 12.8 runs Blackwell, which no toolkit of the channel before 12.9 knows."""
    choose(front.page, Chosen("cuda-core", "linux-64", "12.8", "", "", ""))
    assert shown(front.page)["title"].endswith(", if its GPU has compute capability 9.0 or older")
    expect(front.page.locator("#unseen")).to_have_text(
        "For a newer GPU, say above which one it is."
    )


def test_nobody_is_told_a_pin_with_which_there_is_no_such_package(front: Watched) -> None:
    """There is no nvcc of CUDA 12 for conda."""
    note, only = (
        front.page.locator("#unseen"),
        "It is for GPUs of compute capability 7.5 and newer.",
    )
    front.page.fill("#package", "cuda-nvcc")
    more = "For an older one, say above which GPU it is."
    expect(note).to_have_text(f"cuda-nvcc needs a driver for CUDA 13.0 or newer. {only} {more}")
    choose(front.page, Chosen("cuda-nvcc", "linux-64", "13.0", "", "", ""))
    expect(note).to_have_text(f"{only} {more}")
    assert shown(front.page)["title"].endswith(", if its GPU has compute capability 7.5 or newer")


@pytest.mark.parametrize("driver", ["", "13.0", "12.6"])
def test_for_an_old_gpu_one_message_says_what_works_and_why_this_channel_s_nvcc_does_not(
    front: Watched, driver: str
) -> None:
    """Nobody is told to use another GPU below a command that works for this one."""
    page = front.page
    page.fill("#package", "cuda-nvcc")
    take(page, "machine", "choose")
    page.select_option("#driver", driver)
    page.fill("#gpu", "V100")
    page.locator("#gpu").blur()
    for client in ("conda", "mamba"):
        take(page, "client", client)
        seen = shown(page)
        assert (seen["state"], seen["title"], seen["why"]) == ("detected", NVCC_ELSEWHERE, [])
        assert "cannot compile for compute capability 7.0" in seen["summary"]
        assert seen["command"].startswith(f"{client} create") and "cuda-nvcc" in seen["command"]
        expect(page.locator("#unseen")).to_be_hidden()
    take(page, "client", "pixi")
    assert shown(page)["title"] == NVCC_ELSEWHERE
    assert "use a GPU" not in page.inner_text("#answer")
    expect(page.locator("#install")).to_be_hidden()


def test_nvcc_of_cuda_12_is_a_command_that_takes_it_from_conda_forge(
    front: Watched, offered: dict[str, Any]
) -> None:
    """And for pixi, a link to the page that says how."""
    page, here = front.page, offered["channels"][0]
    for driver, pin, specs in (("12.6", "", ""), ("13.0", "12.9", " cuda-version=12.9")):
        choose(page, Chosen("cuda-nvcc", "linux-64", driver, "9.0", "", pin))
        for client in ("conda", "mamba"):
            take(page, "client", client)
            seen = shown(page)
            assert seen["title"] == NVCC_ELSEWHERE
            assert seen["summary"].startswith("The command takes nvcc of CUDA 12 from conda-forge")
            assert seen["command"] == (
                f"{client} create --name gpu \\\n  --channel {here} \\\n  --channel conda-forge"
                f" \\\n  --override-channels \\\n  cuda-gpu cuda-nvcc{specs}"
            )
            expect(page.locator("#hint-code")).to_contain_text(f"CONDA_OVERRIDE_CUDA={driver}")
            expect(page.locator("#later")).to_be_hidden()
        take(page, "client", "pixi")
        link = page.locator("#todo a").first
        assert (link.get_attribute("href") or "").endswith("users.html#nvcc-of-cuda-12")
        expect(page.locator("#install")).to_be_hidden()
        take(page, "client", "conda")
    choose(page, Chosen("cuda-nvcc", "linux-64", "12.4", "", "", ""))
    (step,) = shown(page)["why"]
    assert "Or update the driver to one for CUDA 13.0 or newer, or stay with toolkit 12.0, " in step
    assert step.endswith("cuda-nvrtc-dev, whose NVRTC compiles CUDA C++ while a program runs")
    choose(page, Chosen("cuda-core", "linux-64", "12.4", "", "", ""))
    shown(page)
    expect(page.locator("#later")).to_be_visible()


def test_a_head_and_the_lines_below_it_agree_on_a_newer_nvjitlink(front: Watched) -> None:
    """Toolkit 12.0 has none that Python can use, and the PTX of 12.3's needs a driver as new."""
    exception = "One exception: PTX that nvJitLink writes needs a driver for CUDA 12.3; "
    for driver, works in (("12.0", " works"), ("12.4", ": everything works")):
        choose(front.page, Chosen("cuda-core", "linux-64", driver, "9.0", "", ""))
        seen = shown(front.page)
        assert seen["title"] == f"CUDA 12.0{works} on this machine"
        assert seen["summary"].startswith(exception) == (driver == "12.0")
        needs = f"needs a driver for CUDA 12.3 (this one supports {driver})."
        assert needs in "\n".join(seen["why"])
        expect(front.page.locator("#verdict")).to_have_attribute("data-works", "true")


@pytest.mark.parametrize("client", ["conda", "mamba", "pixi"])
def test_what_needs_no_cuda_is_not_asked_for_with_cuda_builds(front: Watched, client: str) -> None:
    page = front.page
    take(page, "client", client)
    page.fill("#package", "cuda-arch")
    seen = shown(page)
    assert (seen["state"], seen["title"]) == ("solved", "No CUDA toolkit is needed")
    assert "any machine" in seen["summary"]
    assert not re.search("cuda-(gpu|native)", seen["command"] + added(page))
    expect(page.locator("#hint")).to_be_hidden()
    expect(page.locator("#unseen")).to_be_hidden()
    assert "driver=" not in page.url
    page.evaluate("document.getElementById('more').open = true")
    take(page, "pin", "12")  # then it is asked for
    assert shown(page)["state"] == "detected"
    if client != "pixi":
        assert "cuda-gpu cuda-arch" in shown(page)["command"]


def test_the_tool_is_solved_for_every_machine(front: Watched) -> None:
    """The base channel of a checkout lacks conda-pack, so no command is shown that fails."""
    front.page.fill("#package", "ctk")
    seen = shown(front.page)
    assert seen["why"] == [
        "The base channel lacks conda-pack: the channel's keeper can name conda-forge as base"
    ]
    assert seen["state"] == "refused" and seen["title"].startswith("ctk needs conda-pack")


def test_no_step_of_the_page_is_an_option_of_a_command_line(
    running: Browser, site_folder: Path
) -> None:
    """A page has no --base and no --driver."""
    wrong = set()
    for file in (site_folder / "answers").rglob("*.js"):
        packed = json.loads(file.read_text().partition(",")[2].removesuffix(");\n"))
        for pick, *_, reasons in (answer[:5] for answer in packed["answers"]):
            lines = [" ".join(packed["texts"][p] for p in packed["lines"][r]) for r in reasons]
            if pick < 0:
                wrong |= {line for line in lines if re.search(r"(?<!\w)--?[a-z]|CHANNEL", line)}
    assert wrong == set()


def test_a_name_that_is_proposed_is_chosen_with_the_machine(front: Watched) -> None:
    choose(front.page, Chosen("cuda-core", "linux-64", "12.6", "9.0", "", ""))
    front.page.fill("#package", "cuda-cor")
    shown(front.page)
    front.page.locator("#todo a").first.click()
    expect(front.page.locator("#title")).to_contain_text("everything works")
    assert machine(front.page) == ("choose", "12.6", "9.0")
    assert shown(front.page)["command"].endswith(" cuda-core")


def test_a_gpu_that_is_not_in_the_list_is_not_said_to_work(front: Watched) -> None:
    front.page.fill("#paste", UNLISTED)
    seen = shown(front.page)
    assert (
        "everything works" not in seen["title"] and "NVIDIA CMP 50HX is not known" in seen["title"]
    )
    assert front.page.locator("#verdict").get_attribute("data-works") == "false"
    front.page.fill("#gpu", "8.6")
    assert "everything works" in shown(front.page)["title"]


def test_a_package_of_another_channel_is_for_machines_that_get_cuda(front: Watched) -> None:
    choose(front.page, Chosen("cuda-core", "linux-64", "11.8", "", "", ""))
    refused = shown(front.page)["title"]
    front.page.fill("#package", "pytorch")
    assert shown(front.page)["title"] == refused
    front.page.select_option("#driver", "12.8")
    front.page.fill("#gpu", "12.0")
    front.page.locator("#gpu").blur()
    assert shown(front.page)["command"].endswith(" cuda-gpu pytorch cuda-version=12.9")


def test_the_words_for_a_login_node_are_copied(front: Watched) -> None:
    choose(front.page, Chosen("cuda-core", "linux-64", "13.0", "9.0", "", ""))
    shown(front.page)
    box = front.page.locator("#hint .copy")
    expect(front.page.locator("#hint-words")).to_contain_text("such as a login node")
    words = "CONDA_SUBDIR=linux-64 CONDA_OVERRIDE_CUDA=13.0 CONDA_OVERRIDE_CUDA_ARCH=9.0"
    expect(box.locator("pre")).to_have_text(words)
    box.get_by_role("button").click()
    expect(box.get_by_role("button")).not_to_have_text("Copy")
    take(front.page, "machine", "detect")
    expect(box).to_be_hidden()


def printed(name: str) -> str:
    """What a machine with an H100 and driver 580.159.04 printed, but for its serial numbers."""
    return (PRINTED / f"h100-{name}.txt").read_text()


FIELDS = ("8.6", "NVIDIA GeForce RTX 3060, 8.6")
WITH_RELEASE = (
    "NVIDIA GeForce RTX 3060, 535.183.01",
    "name, driver_version\nNVIDIA GeForce RTX 3060, 535.183.01",
)
FORMS = (
    lambda text: text.replace("\n", "\n    "),
    lambda text: "> " + text.replace("\n", "\n> "),
    lambda text: text.replace("|", " "),
    lambda text: text.replace("\n", " "),
)


@pytest.mark.parametrize(
    ("pasted", "driver", "gpu", "said"),
    [
        (SMI_580, "13.0", "7.0", "the oldest one counts"),
        (SMI_610, "13.3", "12.0", "supports CUDA 13.3"),
        (UNLISTED, "13.3", "", "have NVIDIA CMP 50HX: type the compute capability"),
        (UNLISTED, "13.3", "", "--query-gpu=compute_cap"),
        (UNLISTED + "compute_cap\n8.6\n", "13.3", "8.6", "compute capability 8.6"),
        # A row without a bus has a name too.
        (JETSON.replace("Orin (nvgpu)", "Tesla V100  "), "12.6", "7.0", "capability 7.0"),
        *((form, "", "8.6", "choose it below") for form in FIELDS),
        *((form, "12.2", "8.6", "Driver 535 supports CUDA 12.2") for form in WITH_RELEASE),
        # Who knows the number of the driver only, or only the version of CUDA.
        *(
            (typed, "12.2", "", "Driver 535 supports CUDA 12.2. It names no GPU")
            for typed in ("535", "driver 535", "535.183.01", "R535", "Driver Version: 535.104.05")
        ),
        ("552.22", "12.4", "", "Driver 552 supports CUDA 12.4."),
        ("620.10", "13.3", "", "supports CUDA 13.3 at least"),
        ("CUDA 12.2", "12.2", "", "supports CUDA 12.2"),
        # An old GPU counts whatever the others are.
        (
            UNLISTED + UNLISTED.replace("CMP 50HX", "V100"),
            "13.3",
            "7.0",
            "CMP 50HX: GPU 7.0 counts, unless that is older.",
        ),
        *((printed(name), "13.0", "9.0", "compute capability 9.0") for name in ("plain", "query")),
        # As a chat or an issue shows it.
        *((form(printed("plain")), "13.0", "9.0", "compute capability 9.0") for form in FORMS),
        # What does not say which driver there is leaves that to the client.
        *((printed(name), "", "9.0", "compute capability 9.0") for name in ("list", "csv")),
        (printed("csv-three"), "13.0", "9.0", "Driver 580 supports CUDA 13.0."),
        ("CUDA Version: 13.0", "13.0", "", "It names no GPU"),
        (
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
            "none",
            "",
            "mend its driver",
        ),
        ("bash: nvidia-smi: command not found", "none", "", "no nvidia-smi"),
    ],
)
def test_pasted_output_of_nvidia_smi_chooses(
    front: Watched, pasted: str, driver: str, gpu: str, said: str
) -> None:
    take(front.page, "machine", "choose")
    front.page.fill("#paste", pasted)
    expect(front.page.locator("#paste-note")).to_contain_text(said)
    expect(front.page.locator("#paste-note")).to_be_visible()
    none = driver == "none"
    assert machine(front.page) == (("none", "", "") if none else ("choose", driver, gpu))
    assert shown(front.page)["state"] in (("solved", "refused") if driver else ("detected",))
    # A GPU that is listed proves that there is a driver.
    assert none or re.search(r"cuda-(gpu|native)", front.page.locator("#command").text_content())


@pytest.mark.parametrize(
    ("pasted", "said"),
    [
        ("| a table | of something |\n" * 500, "not what nvidia-smi prints"),
        (
            (
                "Failed to initialize NVML: Driver/library version mismatch\nNVML library version:"
                " 580.95"
            ),
            "restart",
        ),
        ("No devices were found\n", "sees no GPU"),
    ],
)
def test_what_says_nothing_of_a_machine_is_said_to_and_chooses_nothing(
    front: Watched, pasted: str, said: str
) -> None:
    take(front.page, "machine", "choose")
    front.page.fill("#paste", pasted)
    expect(front.page.locator("#paste-note")).to_contain_text(said)
    assert machine(front.page) == ("choose", "", "")
    assert shown(front.page)["state"] == "detected"


def test_a_driver_that_was_not_solved_is_said_to_be(front: Watched) -> None:
    take(front.page, "machine", "choose")
    front.page.fill("#paste", SMI_580.replace("CUDA Version: 13.0", "CUDA Version: 12.75"))
    expect(front.page.locator("#title")).to_have_text(NO_ANSWER)
    expect(front.page.locator("#summary")).to_contain_text("12.75")
    expect(front.page.locator("#install")).to_be_hidden()


def test_a_gpu_that_is_older_than_every_toolkit_is_not_helped_by_a_driver(front: Watched) -> None:
    take(front.page, "machine", "choose")
    front.page.fill("#paste", KEPLER)
    assert machine(front.page) == ("choose", "11.4", "3.7")
    seen = shown(front.page)
    assert seen["state"] == "unsolved" and seen["title"].startswith(
        "This GPU is older than every toolkit"
    )
    front.page.fill("#paste", KEPLER.replace("Tesla K80", "Quadro 42"))
    seen = shown(front.page)
    assert (
        seen["state"] == "refused"
        and "does not help a GPU older than compute capability 5.0" in seen["why"][0]
    )


@pytest.mark.parametrize(
    "typed", ["cuda-core numba-cuda", "cuda-core, numba-cuda", "cuda-core,pytorch"]
)
def test_several_names_get_one_command(front: Watched, typed: str) -> None:
    page, names = front.page, re.split(r"[, ]+", typed)
    page.fill("#package", typed)
    for client in ("conda", "mamba"):
        take(page, "client", client)
        seen = shown(page)
        assert seen["title"] == f"One command for {names[0]} and {names[1]}"
        assert seen["command"].endswith(f" cuda-gpu {' '.join(names)}")
    expect(page.locator("#package-note")).to_be_hidden()
    take(page, "client", "pixi")
    assert shown(page)["command"].endswith(" ".join(names))
    take(page, "machine", "none")
    assert list(tomllib.loads(shown(page)["command"])["dependencies"]) == names


def test_of_several_names_the_one_that_is_unknown_is_said(front: Watched) -> None:
    front.page.fill("#package", "cuda-core, cuda-cor")
    seen = shown(front.page)
    assert seen["state"] == "unsolved" and seen["title"].startswith("There is no cuda-cor ")


def test_the_choice_of_a_driver_names_its_number_and_its_cuda_version(front: Watched) -> None:
    take(front.page, "machine", "choose")
    labels = front.page.locator("#driver option").all_inner_texts()
    assert "12.2: driver 535" in labels and "13.0: driver 580" in labels
    assert labels[-1] == "11.8 or older: driver 520"


def test_a_capability_that_is_pasted_later_keeps_the_driver(front: Watched) -> None:
    take(front.page, "machine", "choose")
    front.page.fill("#paste", UNLISTED)
    front.page.fill("#paste", "compute_cap\n8.6\n")
    assert (
        machine(front.page) == ("choose", "13.3", "8.6") and shown(front.page)["state"] == "solved"
    )


SPARK = UNLISTED.replace("CMP 50HX", "GB10")
SYSTEMS = [
    (WINDOWS, "win-64", "That is Windows"),
    (NO_COMMAND, "win-64", "That is Windows"),
    (SPARK, "linux-aarch64", "That machine is ARM"),
    (JETSON, "linux-aarch64", "That machine is ARM"),
]
NEXT = {"That is Windows": "In WSL", "That machine is ARM": "ctk build --platform linux-aarch64"}


@pytest.mark.parametrize(("pasted", "system"), [(pasted, words) for pasted, _, words in SYSTEMS])
def test_a_machine_of_a_system_that_the_channel_lacks_gets_no_command(
    front: Watched, pasted: str, system: str
) -> None:
    take(front.page, "machine", "choose")
    front.page.fill("#paste", pasted)
    for package in ("pytorch", "cuda-core"):
        front.page.fill("#package", package)
        expect(front.page.locator("#title")).to_have_text(
            f"{system}, and this channel is for linux-64 only"
        )
        expect(front.page.locator("#install")).to_be_hidden()
        expect(front.page.locator("#todo")).to_contain_text(NEXT[system])
    front.page.fill("#paste", UNLISTED)
    assert shown(front.page)["state"] == "solved"
    front.page.fill("#gpu", "Jetson AGX Orin")
    expect(front.page.locator("#title")).to_contain_text("That machine is ARM")
    take(front.page, "machine", "detect")
    expect(front.page.locator("#install")).to_be_visible()


@pytest.mark.parametrize(
    ("pasted", "platform"), [(pasted, platform) for pasted, platform, _ in SYSTEMS]
)
def test_the_system_of_a_paste_is_chosen_where_the_channel_has_it(
    running: Browser, site_folder: Path, tmp_path: Path, pasted: str, platform: str
) -> None:
    """The channel here has Linux only: the other platform is added to the page."""
    shutil.copytree(site_folder / "assets", tmp_path / "assets")
    axes = {
        "gpus": [None, "8.9"],
        "drivers": [None, "12.4"],
        "pythons": [""],
        "of_python": [],
        "pins": [""],
        "packages": ["cuda-core"],
    }
    page = (site_folder / "index.html").read_text()
    (tmp_path / "index.html").write_text(
        page.replace('{"linux-64":', f'{{"{platform}":{json.dumps(axes)},"linux-64":')
    )
    with watched(running, WIDTHS["wide"], "light") as seen:
        seen.open(tmp_path / "index.html")
        take(seen.page, "machine", "choose")
        seen.page.fill("#paste", pasted)
        expect(seen.page.locator("input[name=platform]:checked")).to_have_value(platform)
        expect(seen.page.locator("#title")).not_to_contain_text("That ")


@pytest.mark.parametrize(
    ("driver", "end", "state"), [("19.4", "13.6", "solved"), ("11.4", "11.8", "refused")]
)
def test_a_driver_beyond_the_ends_is_answered_by_the_end_and_keeps_its_number(
    front: Watched, driver: str, end: str, state: str
) -> None:
    take(front.page, "machine", "choose")
    printed_ = SMI_580.replace("CUDA Version: 13.0", f"CUDA Version: {driver}")
    front.page.fill("#paste", printed_.replace("Tesla V100-SXM2-16GB", "NVIDIA H200         "))
    expect(front.page.locator("#paste-note")).to_contain_text(f"supports CUDA {driver}.")
    expect(front.page.locator("#driver")).to_have_value(driver)
    expect(front.page.locator("#driver option:checked")).to_have_text(driver)
    seen = shown(front.page)
    assert seen["state"] == state
    said = front.page.locator("#answer, #verdict")
    assert all(end not in text for text in said.all_inner_texts())
    assert any(f"CUDA {driver}" in text for text in said.all_inner_texts())
    assert f"driver={driver}" in front.page.url
    if state == "solved":
        words = front.page.locator("#hint-code").text_content() or ""
        assert f"CONDA_OVERRIDE_CUDA={driver} " in words
        take(front.page, "client", "pixi")
        (described,) = tomllib.loads(shown(front.page)["command"])["workspace"]["platforms"]
        assert described["cuda"]["driver"] == driver
    front.page.reload()
    assert machine(front.page)[1] == driver


NO_GPU = (
    "Blackwell",
    "GeForce 9999",
    "99.9.9",
    "h",
    "x" * 300,
    "NVIDIA RTX 8000 Ada Generation",
)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        *((typed, "The list has no GPU of that name") for typed in NO_GPU),
        *(
            (typed, "Compute capability 9.0")
            for typed in ("H200", "nvidia h200", "sm_90a", "90", "9,0", "h 100")
        ),
        *(
            (typed, "Compute capability 8.9")
            for typed in ("4090", "RTX 4090", "NVIDIA RTX 6000 Ada Generation")
        ),
        ("T4", "Compute capability 7.5"),
        *((typed, "Compute capability 7.5") for typed in ("GTX 1660 Ti", "1660 SUPER", "GTX 1650")),
        *((typed, "Compute capability 8.6") for typed in ("A10G", "RTX A5500", "A4500")),
        *((typed, "Compute capability 11.0") for typed in ("Jetson Thor", "AGX Thor")),
        *((typed, "Compute capability 3.5") for typed in ("Tesla K40", "K40m", "Tesla K20Xm")),
    ],
)
def test_a_gpu_is_known_by_name_or_number_and_another_gets_a_sentence(
    front: Watched, typed: str, said: str
) -> None:
    """A name that another GPU's begins with is not taken for it."""
    take(front.page, "machine", "choose")
    front.page.fill("#gpu", typed)
    front.page.locator("#gpu").blur()
    expect(front.page.locator("#gpu-note")).to_contain_text(said)
    if said.startswith("The list"):
        expect(front.page.locator("#title")).to_have_text(NO_ANSWER)


def test_a_gpu_that_is_being_typed_is_no_gpu_yet(front: Watched) -> None:
    choose(front.page, Chosen("cuda-core", "linux-64", "13.0", "", "", ""))
    before = shown(front.page)["title"]
    for key in "RTX 50":
        front.page.locator("#gpu").press_sequentially(key)
        assert shown(front.page)["title"] == before
        expect(front.page.locator("#gpu-note")).to_be_hidden()
    front.page.locator("#gpu").press_sequentially("90")
    expect(front.page.locator("#summary")).to_contain_text("GPU 12.0")
    front.page.fill("#gpu", "50")
    expect(front.page.locator("#summary")).to_contain_text("GPU 12.0")
    front.page.locator("#gpu").press("Enter")
    expect(front.page.locator("#summary")).to_contain_text("GPU 5.0")


@pytest.mark.parametrize(
    ("typed", "step"),
    [
        ("cuda-cor", "Did you mean cuda-core"),
        ("numbacuda", "Did you mean numba-cuda?"),
        ("CUDA-Core", "Did you mean cuda-core"),
        ("core-cuda", "Did you mean cuda-core?"),
        ("cuda-croe", "Did you mean cuda-core?"),
        ("numpie", "The page Packages has them all."),
        ("cuda-gds", "The page Packages has them all."),
        ("<img src=x onerror=alert(1)>", "The page Packages has them all."),
    ],
)
def test_an_unknown_package_gets_the_nearest_names(front: Watched, typed: str, step: str) -> None:
    front.page.fill("#package", typed)
    seen = shown(front.page)
    assert seen["title"] == f"There is no {typed} for linux-64 in this channel"
    assert (
        len(seen["why"]) == 1
        and seen["why"][0].startswith(step)
        and seen["why"][0].count(", or ") < 3
    )
    expect(front.page.locator("#install")).to_be_hidden()
    front.page.fill("#package", "")
    assert shown(front.page)["title"] == "Name a package"


KEEPER = "The channel's keeper can build it: ctk build "
NOT_BUILT = ("cudnn", "nccl", "cupy", "libcublas", "libcublas-dev")


@pytest.mark.parametrize(
    ("typed", "said", "step"),
    [
        ("cudatoolkit", "the toolkit of CUDA 11 and older in one package", "Ask for cuda-nvrtc."),
        ("nvidia-nvjitlink-cu12", "a wheel, for pip", "Ask for libnvjitlink."),
        ("nvidia-nvjitlink", "a wheel, for pip", "Ask for libnvjitlink."),
        ("nvidia-cuda-runtime-cu12", "a wheel, for pip", "Ask for cuda-cudart."),
        ("cupy-cuda11x", "a name of CuPy's wheel for a CUDA version", ""),
        ("cuda-driver", "the driver, which belongs to the machine", "The page Packages has"),
        ("cuda-nvrtc-files", "a part of cuda-nvrtc", "Ask for cuda-nvrtc."),
        ("libnvjitlink-files", "a part of libnvjitlink", "Ask for libnvjitlink."),
        ("cublas", "libcublas, which is not built in this channel", "The page Packages has"),
        (
            "cuda-toolkit",
            "the whole toolkit with its compiler, and is not",
            KEEPER + "cuda-toolkit, ",
        ),
        ("cuda", "the whole toolkit with its compiler, and is not built", KEEPER + "cuda, then"),
        *((name, "not built in this channel", KEEPER + f"{name}, then") for name in NOT_BUILT),
        ("cuda_runtime.h", "the name of a file, and only names of packages", "The page Packages"),
        ("libnvrtc.so", "a file of the package cuda-nvrtc", "Ask for cuda-nvrtc."),
    ],
)
def test_a_name_that_is_known_not_to_be_here_is_answered_with_what_it_is(
    front: Watched, typed: str, said: str, step: str
) -> None:
    front.page.fill("#package", typed)
    seen = shown(front.page)
    assert f" is {said}" in seen["title"]
    assert seen["why"][0].startswith(step)
    expect(front.page.locator("#install")).to_be_hidden()


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("pytorch", "pytorch is not built in this channel."),
        ("torch", "torch is called pytorch here."),
    ],
)
def test_a_package_of_another_channel_is_asked_for_behind_the_one_that_asks_for_cuda(
    front: Watched, typed: str, said: str
) -> None:
    front.page.fill("#package", typed)
    assert shown(front.page)["title"] == "pytorch comes from another channel"
    expect(front.page.locator("#package-note")).to_have_text(said)
    summary = shown(front.page)["summary"]
    assert "so nothing was solved. The command takes it from " in summary
    assert ", as a CUDA build if there is one, " in summary
    expect(front.page.locator("#todo")).to_contain_text(f"{KEEPER}pytorch, then ctk publish")
    for client, end in (("conda", " cuda-gpu pytorch"), ("pixi", "\npixi add cuda-gpu pytorch")):
        take(front.page, "client", client)
        assert shown(front.page)["command"].endswith(end)
    take(front.page, "machine", "none")
    assert "cuda-gpu" not in shown(front.page)["command"]
    expect(front.page.locator("#unseen")).to_be_hidden()  # no GPU is too old where there is none


def test_it_can_be_used_with_the_keyboard_alone(front: Watched) -> None:
    page = front.page

    def where() -> str:
        return page.evaluate("document.activeElement.id || document.activeElement.name")

    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # skip to the content
    places = []
    for _ in range(6):
        page.keyboard.press("Tab")
        places.append(where() or page.evaluate("document.activeElement.parentElement.id"))
    assert places == [
        "first",
        "package",
        "platform",
        "machine",
        "paste",
        "more",
    ], "a row of buttons is one stop"
    for _ in range(2):
        page.keyboard.press("Shift+Tab")
    outline = "getComputedStyle(document.activeElement.nextElementSibling).outlineStyle"
    assert page.evaluate(outline) == "solid", "the button with the focus shows it"
    page.keyboard.press("ArrowRight")  # in it, the arrows choose
    places = []
    for typed in ("", "12.6", "T4"):  # a list of choices goes to what is typed
        page.keyboard.press("Tab")
        places.append(where())
        page.keyboard.type(typed)
    assert places == ["paste", "driver", "gpu"]
    expect(page.locator("#summary")).to_contain_text("driver for CUDA 12.6, GPU 7.5")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # unfolds Python and toolkit
    page.keyboard.press("Tab")
    assert where() == "python"
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#more-now")).to_contain_text("the best of CUDA")


def test_what_is_chosen_is_in_the_address(front: Watched, running: Browser) -> None:
    choose(front.page, Chosen("cuda-core", "linux-64", "12.9", "7.0", "", "12"))
    take(front.page, "client", "mamba")
    title, address = shown(front.page)["title"], front.page.url
    with watched(running, WIDTHS["wide"], "light") as other:
        other.page.goto(address)
        expect(other.page.locator("#title")).to_have_text(title)
        assert other.page.locator("input[name=pin]:checked").input_value() == "12"
        assert other.page.locator("input[name=client]:checked").input_value() == "mamba"
    front.page.fill("#gpu", "3.7")
    expect(front.page.locator("#summary")).to_contain_text("None is for compute capability 3.7.")
    front.page.fill("#package", "pytorch")  # no command for what another channel has either
    expect(front.page.locator("#summary")).to_contain_text("None is for compute capability 3.7.")
    take(front.page, "machine", "none")
    take(front.page, "machine", "choose")
    front.page.select_option("#driver", "")
    front.page.fill("#gpu", "")
    front.page.reload()
    assert machine(front.page) == ("choose", "", "")


def test_a_link_for_a_platform_that_is_not_there_says_so(front: Watched) -> None:
    front.page.goto(f"{front.page.url.partition('#')[0]}#platform=osx-64")
    note = front.page.locator("#platform-note")
    expect(note).to_have_text("There is nothing for osx-64 here, so Linux is chosen.")
    front.page.goto(f"{front.page.url.partition('#')[0]}#platform=linux-64")
    expect(note).to_be_hidden()


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    ("state", "fragment"),
    [
        ("solved", "package=cuda-core&driver=13.0&gpu=V100"),
        ("refused", "package=cuda-core&driver=12.6&pin=13.0"),
        ("unsolved", "package=cuda-core&driver=13.0&gpu=unknown"),
        ("refused", "package=cuda-core&driver=13.1&gpu=V100"),
        ("detected", "package=cuda-core"),
        ("detected", "package=numba-cuda&gpu=RTX 4090"),
    ],
    ids=["solved", "refused", "unsolved", "impossible", "untouched", "driver not known"],
)
def test_the_front_page_is_accessible(
    running: Browser,
    site_folder: Path,
    state: str,
    fragment: str,
    width: str,
    scheme: str,
    request: Any,
) -> None:
    with watched(running, WIDTHS[width], scheme) as seen:
        seen.page.goto(f"{(site_folder / 'index.html').as_uri()}#{fragment}")
        expect(seen.page.locator("#answer")).to_have_attribute("data-state", state)
        if state == "solved":
            seen.page.click("#pick-title")
            take(seen.page, "client", "pixi")
            wider = (
                "(box => box.scrollWidth - box.clientWidth)(document.querySelector('#pick"
                " .scroll'))"
            )
            assert seen.page.evaluate(wider) == 0 or width == "narrow", "the size is in sight"
        colour = "(...of) => getComputedStyle(document.querySelector(of[0][0]), of[0][1]).color"
        assert seen.page.evaluate(colour, ["#package", "::placeholder"]) == seen.page.evaluate(
            colour, [".note", ""]
        )
        assert axe(seen.page) == []
        assert seen.overflow() == 0
        name = request.node.callspec.id.split("-")[0].replace(" ", "-")
        seen.screenshot(f"front-{name}-{width}-{scheme}")
        assert seen.trouble == []
