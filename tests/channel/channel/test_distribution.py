"""What licence texts say of the files in packages: shown by `ctk check`, and asked for by `ctk
publish`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from ctk.build.originals import Changed, PackageFiles
from ctk.channel.publish import Folder
from ctk.core.checkout import Workspace
from ctk.core.errors import NotAccepted
from kit.small_channels import Draft, build, serve, sound
from kit.tables import cells
from kit.upload_server import upload_server

pytest_plugins = ["kit.channel_fixtures"]
RunCtk = Callable[..., Result]

PTXAS = Changed("bin/ptxas", "RPATH $ORIGIN/../lib", "1" * 64, "not-named")
NVCC = PackageFiles(2, (PTXAS,), ("CUDA EULA",), {"clause-2.3": 2, "not-named": 1}, ("bin/ptxas",))
CUDART = PackageFiles(4, (), ("CUDA EULA",), {"attachment-a": 1, "clause-2.3": 3})


def drafts(build_number: int = 0) -> tuple[Draft, ...]:
    """A package that its text does not name, one that it names, and one without files."""
    name = f"h0_{build_number}"
    return (
        sound(Draft("nvcc", build=name, files={"bin/ptxas": b"a"}), files=NVCC),
        sound(Draft("cudart", files={"lib/libcudart.so": b"b"}), files=CUDART),
        sound(Draft("meta")),
    )


@pytest.fixture
def checkout(two_states: Workspace) -> Workspace:
    build(two_states.channel, *drafts())
    return two_states


def test_a_package_that_is_not_named_is_published_with_consent_and_later_without(
    checkout: Workspace, run_ctk: RunCtk, tmp_path: Path
) -> None:
    www = tmp_path / "www"
    refused = run_ctk("publish", "--to", str(www))
    assert isinstance(refused.exception, NotAccepted)
    assert refused.exception.cause.startswith("1 package with files that the licence text")
    assert "nothing was written" in refused.exception.cause
    assert "not legal advice" in refused.exception.cause
    assert "--accept-redistribution" in refused.exception.step
    assert f"info/licenses of each package in {checkout.channel}," in refused.exception.step
    assert (
        "nvcc" in refused.stdout
        and "bin/ptxas" in refused.stdout
        and "cudart" not in refused.stdout
    )
    assert not www.exists(), "nothing was written"
    accepted = run_ctk("publish", "--to", str(www), "--accept-redistribution", "--json")
    assert json.loads(accepted.stdout)["not_named"] == {"nvcc": ["bin/ptxas"]}
    # A newer build of a package that is there is no new question; another package is.
    build(checkout.channel, *drafts(1))
    assert run_ctk("publish", "--to", str(www)).exception is None
    build(checkout.channel, sound(Draft("other"), files=NVCC), *drafts(1))
    assert isinstance(run_ctk("publish", "--to", str(www)).exception, NotAccepted)
    assert len(Folder(www, checkout.recipes).names()) == 4


def test_a_refusal_names_a_channel_that_stays(
    checkout: Workspace, run_ctk: RunCtk, tmp_path: Path
) -> None:
    """Not the copy of a channel on a server, nor the folder behind the link of a built one."""
    staging, second = tmp_path / "staging", tmp_path / "second"
    build(second, *drafts())
    Folder(staging, checkout.recipes).publish(second.resolve())
    with serve(tmp_path) as server:
        for words, place in (
            (("--from", f"{server}/staging@1"), f"{server}/staging"),
            (("--from", str(staging)), str(staging)),
            ((str(second),), str(second)),
        ):
            refused = run_ctk("publish", *words, "--to", str(tmp_path / "www")).exception
            assert isinstance(refused, NotAccepted)
            assert f"info/licenses of each package in {place}," in refused.step


def test_what_was_withdrawn_is_a_question_again(
    checkout: Workspace, run_ctk: RunCtk, tmp_path: Path
) -> None:
    """Its file is still in the folder, and so is one that a killed run copied.

    Readers see neither.
    """
    www = tmp_path / "www"
    assert run_ctk("publish", "--to", str(www), "--accept-redistribution").exception is None
    build(checkout.channel, *drafts()[1:])
    assert run_ctk("publish", "--to", str(www), "--exact", "--yes").exception is None
    build(checkout.channel, *drafts())
    assert isinstance(run_ctk("publish", "--to", str(www)).exception, NotAccepted)
    done = run_ctk("publish", "--to", str(www), "--accept-redistribution", "--json")
    assert json.loads(done.stdout)["not_named"] == {"nvcc": ["bin/ptxas"]}
    assert [name for name in json.loads(done.stdout)["added"] if "nvcc" in name], (
        "it is new for readers"
    )


def test_a_folder_without_a_state_says_how_to_get_one(
    run_ctk: RunCtk, checkout: Workspace, tmp_path: Path
) -> None:
    (tmp_path / "www" / ".history").mkdir(parents=True)  # as a killed first run leaves it
    www = str(tmp_path / "www")
    for words in (
        ["rollback", www],
        ["check", www],
        ["solve", "nvcc", "--channel", www, "--base", www],
    ):
        assert "a `ctk publish` into it was stopped, or is at work now" in str(
            run_ctk(*words).exception
        ), words


def test_the_settings_accept_it(checkout: Workspace, run_ctk: RunCtk, tmp_path: Path) -> None:
    (checkout.root / "pyproject.toml").write_text(
        "[tool.ctk.publish]\naccept_redistribution = true\n"
    )
    done = run_ctk("publish", "--to", str(tmp_path / "www"))
    assert done.exception is None
    assert "not legal advice" in done.stdout, "it is still said"


@pytest.mark.usefixtures("checkout")
def test_nothing_is_sent_to_a_server_without_consent(
    run_ctk: RunCtk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "auth.json").write_text(json.dumps({"127.0.0.1": {"BearerToken": "the-key"}}))
    monkeypatch.setenv("RATTLER_AUTH_FILE", str(tmp_path / "auth.json"))
    with upload_server(tmp_path / "server", index=404) as server:
        words = ("publish", "--to", f"prefix+{server.url}/cuda", "--new", "--wait", "0")
        assert isinstance(run_ctk(*words).exception, NotAccepted)
        assert server.files == []
        run_ctk(*words, "--accept-redistribution")
    assert len(server.files) == 3


def test_check_shows_what_is_changed_and_what_the_texts_say(
    checkout: Workspace, run_ctk: RunCtk
) -> None:
    done = run_ctk("check", str(checkout.channel))
    assert "6 files as NVIDIA and others published them, 1 changed" in done.stdout
    assert "not named: files of nvcc" in done.stdout
    assert "not legal advice" in done.stdout
    assert {
        ("bin/ptxas", "RPATH $ORIGIN/../lib"),
        ("clause 2.3: for Linux, unmodified", "5", "2"),
        ("named in Attachment A", "1", "1"),
        ("not named", "1", "1"),
    } <= set(cells(done.stdout))


def test_check_of_a_package_file_has_all_as_json(checkout: Workspace, run_ctk: RunCtk) -> None:
    (package,) = checkout.channel.glob("linux-64/nvcc-*.conda")
    (found,) = json.loads(run_ctk("check", str(package), "--json").stdout)["files"]
    assert found == {
        "package": f"linux-64/{package.name}",
        "published": 2,
        "changed": [
            {"path": PTXAS.path, "why": PTXAS.why, "sha256": PTXAS.sha256, "word": "not-named"}
        ],
        "licences": ["CUDA EULA"],
        "words": {"clause-2.3": 2, "not-named": 1},
        "not_named": ["bin/ptxas"],
    }
