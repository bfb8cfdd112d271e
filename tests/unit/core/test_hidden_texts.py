"""The list of hidden texts: what is registered is shown in none of its forms, and nothing else is
taken out.
"""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from urllib.parse import quote

import pytest

from ctk.core import console
from ctk.core.address import UNREADABLE, public, refuse_secrets
from ctk.core.errors import BadValue
from ctk.core.secrets import (
    cleaned,
    has_secret,
    hidden,
    hide,
    hide_address,
    hide_again,
    hide_environment,
    without_credentials,
)
from ctk.index import IndexUnavailable, parse_settings

SECRET = 'p"ä@ss/W0rd+1'

NO_ADDRESS = [
    "user:{}@host/simple",
    "https:user:{}@host",
    "HTTPS:user:{}@host",
    "//user:{}@host/simple",
    "user@host:{}",
    "https:/user:{}@host",
    "git+https:user:{}@host",
    "user:{}@[::1]:80/simple",
    " user:{}@host",
    "user%3A{}%40host",
    "user：{}＠host",
    "user:x\n{}@host",
    "https://user:{} x@host/simple",
    "https://user:12/{}@host/simple",
]


@pytest.mark.parametrize("form", NO_ADDRESS)
def test_what_cannot_be_read_as_an_address_is_neither_shown_nor_taken(form: str) -> None:
    text = form.format("hunter2")
    assert "hunter2" not in public(text)
    if "12/" not in text:  # a port, and a path with an @
        assert public(text) == UNREADABLE or "***" not in public(text)
        with pytest.raises(BadValue) as refused:
            refuse_secrets(text, of_address=True)
        assert "hunter2" not in refused.value.cause + refused.value.step


@pytest.mark.parametrize("form", NO_ADDRESS[:-1])
@pytest.mark.parametrize("key", ["index-url", "extra-index-url", "find-links"])
def test_a_setting_of_pip_that_cannot_be_read_is_named_and_not_shown(form: str, key: str) -> None:
    text = form.format("hunter2")
    with pytest.raises(IndexUnavailable) as refused:
        parse_settings(f":env:.{key}={text!r}\n")
    said = refused.value.cause + refused.value.step
    assert f"PIP_{key.upper().replace('-', '_')} has {UNREADABLE}" in said
    assert "hunter2" not in said
    with pytest.raises(IndexUnavailable, match="pip's setting global"):
        parse_settings(f"global.{key}={text!r}\n")


@pytest.mark.parametrize(
    "value",
    [
        "https://u:{}@h/simple",
        "http://[::1]:8080/simple",
        "file:///srv/simple",
        "/srv/simple",
        "./wheels",
        "wheels",
    ],
)
def test_a_setting_that_can_be_read_is_taken(value: str) -> None:
    assert parse_settings(f":env:.index-url={value.format('hunter2')!r}\n").index_url is not None


@pytest.mark.parametrize(
    "written",
    [
        SECRET,
        quote(SECRET, safe=""),
        quote(SECRET).lower(),
        quote(quote(SECRET, safe=""), safe=""),
        json.dumps(SECRET),
        json.dumps(json.dumps(SECRET, ensure_ascii=False)),
        repr(SECRET),
        ascii(SECRET),
        SECRET.upper().replace("Ä", "ä"),
        "p&quot;ä@ss/W0rd+1",
        str(Path(f"https://{SECRET}")),
        b64encode(f"user:{SECRET}".encode()).decode(),
    ],
)
def test_a_secret_is_hidden_in_each_form_that_programs_give_it(written: str) -> None:
    hide(quote(SECRET, safe=""), "user")
    shown = without_credentials(f"before {written} behind")
    assert "***" in shown
    assert "ss/" not in shown and "W0rd" not in shown and "rd+1" not in shown
    assert shown.startswith("before ") and shown.endswith(" behind")


@pytest.mark.parametrize(
    "secret", ["", " ", "a", "cuda", "13.4", "***", "password", "linux-64", "__token__"]
)
def test_a_short_or_common_secret_takes_nothing_out_of_other_words(secret: str) -> None:
    hide(secret, "a")
    text = "a password for cuda 13.4 of conda-forge, a channel of linux-64, __token__ ***"
    assert without_credentials(text) == text
    shown = without_credentials(f"//{secret}@ a:{secret}@host")
    assert not secret.strip(" *") or f"{secret}@" not in shown


def test_a_short_secret_is_hidden_as_a_word_if_it_is_no_word_of_a_language() -> None:
    hide("s3cr!")
    assert without_credentials("s3cr! xs3cr! s3cr!x") == "*** xs3cr! s3cr!x"


def test_the_user_of_an_address_is_hidden_alone_only_if_it_looks_like_a_token() -> None:
    hide_address("https://ghp_0123456789abcdef@host/simple")
    hide_address("https://somebody@host/simple")
    # As long as a token, and without a digit.
    hide_address("https://firstname-lastname@host/simple")
    shown = without_credentials("ghp_0123456789abcdef of somebody in /home/somebody, somebody@host")
    assert shown == "*** of somebody in /home/somebody, ***@host"
    assert (
        without_credentials("of firstname-lastname, firstname-lastname@host")
        == "of firstname-lastname, ***@host"
    )


@pytest.mark.parametrize(
    "address",
    [
        "https://h/s;token=abc123/pkg",
        "https://h/s?key=abc123",
        "https://h/s#access_token=abc123",
        "https://h/t/abc123/ch",
        "https://h/s?X-Amz-Algorithm=AWS4&X-Amz-Signature=abc123",
        "https://h/s?X-Amz-Security-Token=abc123",
        "https://h/s%3Ftoken%3Dabc123",
        "https://h/s?x=abc1230123456789abcdef",
        "https://abc123@h/s",
    ],
)
def test_a_secret_without_a_login_is_shown_by_nothing(address: str) -> None:
    assert "abc123" not in public(address)
    assert "abc123" not in without_credentials(f"error for url ({address})")
    assert has_secret(address)


@pytest.mark.parametrize(
    "text",
    [
        "https://h/o/r/x.yml@refs/heads/main",
        "https://h/simple/x.whl#sha256=0123456789abcdef0123456789abcdef",
        "me@example.org",
        "numpy >=1.26,<3",
        "error: line 3: see a@b",
        "git@example.org:owner/name",
    ],
)
def test_a_text_without_a_secret_stays(text: str) -> None:
    assert without_credentials(text) == text


def test_tokens_of_the_environment_are_known_by_the_names_of_their_variables() -> None:
    hide_environment(
        {
            "GITHUB_TOKEN": "abcdef0123",
            "MY_PASSWORD": "correct-horse",
            "DATABASE": "x://u:qwertz99@h",
            "PWD": "/home/abcdefgh",
            "SERVICE_TOKEN": "/run/abcdefgh9",
            "SSH_AUTH_SOCK": "/tmp/abcdefghij",
            "RATTLER_AUTH_FILE": "relative-path.json",
        }
    )
    paths = "/home/abcdefgh /run/abcdefgh9 /tmp/abcdefghij relative-path.json"
    assert (
        without_credentials(f"abcdef0123 correct-horse qwertz99 {paths}") == f"*** *** *** {paths}"
    )


def test_json_loses_the_secrets_of_its_values_and_keeps_the_names_of_its_keys() -> None:
    hide("packages")
    found = cleaned({"packages": ["packages", {"path": Path("a/packages"), "n": 1}]})
    assert found == {"packages": ["***", {"path": "a/***", "n": 1}]}


def test_another_process_hides_what_this_one_knows() -> None:
    hide("pass-w0rd")
    known = hidden()
    hide_again(known)
    assert hidden() == known != ()


def test_what_no_reporter_prints_passes_the_wall(capsys: pytest.CaptureFixture[str]) -> None:
    import sys

    hide("pass-w0rd")
    print("a pass-w0rd", file=console.Guarded(sys.stdout))
    assert capsys.readouterr().out == "a ***\n"
