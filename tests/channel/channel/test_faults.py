"""What `ctk build-recipe` found wrong, and packages that lack code for GPUs, are not published."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from ctk.channel.faults import FAULTS, note_faults, noted_faults
from ctk.core.checkout import Workspace
from ctk.core.errors import AuditFailed, ChannelBroken
from kit.binaries import code, elf, fatbin
from kit.small_channels import Draft, build, digit, sound

pytest_plugins = ["kit.channel_fixtures"]
RunCtk = Callable[..., Result]
WHY = "its tests failed with driver 13.0"


def place_of(draft: Draft, channel: Path) -> str:
    (file,) = channel.glob(f"*/{draft.name}-*.conda")
    return f"{file.parent.name}/{file.name}"


def test_a_note_is_of_the_package_that_it_was_written_for(tmp_path: Path) -> None:
    one, two = digit(1), digit(2)
    channel = build(tmp_path / "channel", one, two)
    first, second = place_of(one, channel), place_of(two, channel)
    note_faults(channel, {first: WHY, second: ""})
    assert noted_faults(channel, [first, second]) == {first: WHY}
    note_faults(channel, {second: WHY})
    assert noted_faults(channel, [first, second]) == {first: WHY, second: WHY}
    (channel / second).write_bytes(b"another")
    assert noted_faults(channel, [first, second]) == {first: WHY}
    note_faults(channel, {first: "", second: ""})
    assert not (channel / FAULTS).exists()


@pytest.mark.parametrize("text", ["", "[]", '{"a": 1}', '{"a": {"fault": "b"}}'])
def test_a_note_that_is_damaged_says_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / FAULTS).write_text(text)
    assert noted_faults(tmp_path, ["a"]) == {}


def test_a_wrong_package_is_not_published_until_it_is_built_right(
    two_states: Workspace, run_ctk: RunCtk, tmp_path: Path
) -> None:
    channel, readers = two_states.channel.resolve(), str(tmp_path / "readers")
    name = place_of(digit(2), channel)
    note_faults(channel, {name: WHY})
    refused = run_ctk("publish", str(channel), "--to", readers).exception
    assert isinstance(refused, AuditFailed)
    assert (
        refused.cause == f"1 new package in {channel} is not fit to be published:\n  {name}: {WHY}"
    )
    assert refused.step == ("correct the recipe and build it again; nothing was published")
    assert not Path(readers).exists()
    checked = run_ctk("check", str(channel))
    assert f"fault is not fit to be published: {WHY}" in " ".join(checked.stdout.split())
    assert FAULTS not in checked.stdout
    assert isinstance(checked.exception, ChannelBroken)
    assert "build it again" in checked.exception.step
    note_faults(channel, {name: ""})
    assert run_ctk("publish", str(channel), "--to", readers).exit_code == 0


def test_a_package_of_others_that_lacks_code_for_gpus_is_not_published(
    two_states: Workspace, project: Workspace, run_ctk: RunCtk, tmp_path: Path
) -> None:
    shutil.rmtree(two_states.variants)
    two_states.variants.symlink_to(project.variants)
    files = {"lib/libmine.so": elf(payload=fatbin(code("cubin", "90")))}
    mine = sound(Draft("mine", depends=("cuda-version >=13,<14",), files=files))
    channel = build(tmp_path / "mine" / "channel", mine)
    refused = run_ctk("publish", str(channel), "--to", str(tmp_path / "readers")).exception
    assert isinstance(refused, AuditFailed)
    assert "its metadata allows GPUs for which it has little or no code: " in refused.cause
    assert "compile it for " in refused.step and "__cuda_arch >=9.0,<" in refused.step
    assert not (tmp_path / "readers").exists()
