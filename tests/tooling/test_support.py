"""What NVIDIA says of drivers, GPUs and vulnerabilities: refused without a source, and what it means for machines."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from ctk_release import release
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from ctk.build import sbom
from ctk.build.sbom import Input, Provenance
from ctk.core.checkout import Workspace
from ctk.core.errors import LockError
from ctk.lock.lock import ReleaseLock, release_locks
from ctk.lock.support import Support, in_words, load_support, parse_support
from ctk.verify.oracle import OracleFacts, version
from ctk.verify.scenarios import matrix
from ctk.verify.table import Answers, merged

PAGE = "https://docs.example.org/page.html"
TEXT = f"""sources:
  page: {{title: A page, url: {PAGE}, read: 2026-11-24}}
drivers:
  - {{branch: R570, cuda: "12.8", end: 2026-02, sources: [page]}}
  - {{branch: R575, cuda: "12.9", end: ended, sources: [page]}}
  - {{branch: R580, cuda: "13.0", end: 2028-06, sources: [page]}}
  - {{branch: R590, cuda: "13.1", sources: [page]}}
gpus:
  - {{architecture: Volta, compute_capabilities: ["7.0", "7.2"], last_driver: R580, sources: [page]}}
vulnerabilities:
  - {{cves: [CVE-2025-0001], components: [nvjpeg], fixed: "12.9.1", sources: [page]}}
  - {{cves: [CVE-2025-0002, CVE-2025-0003], components: [nvjpeg, cuobjdump], fixed: "13.0.0", sources: [page]}}
"""
SAID = parse_support(TEXT)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (', end: ended, sources: [page]', "", "line 5: drivers.1.sources: missing"),
        ('"13.1", sources: [page]', '"13.1", sources: []', "drivers.3.sources: List should have at least 1 item"),
        ('"7.2"], last_driver: R580, sources: [page]', '"7.2"], last_driver: R580', "line 9: gpus.0.sources: missing"),
        ('"12.9.1", sources: [page]', '"12.9.1"', "line 11: vulnerabilities.0.sources: missing"),
        ('"13.1", sources: [page]', '"13.1", sources: [memory]', "drivers.3.sources: there is no source 'memory'"),
        (PAGE, "http://docs.example.org/page.html", "is no public page; write its address, https://..."),
        (PAGE, "docs/maintainers.md", "is no public page"),
        (PAGE, "https://localhost/page.html", "is no public page"),
        (", read: 2026-11-24", "", "line 2: sources.page.read: missing"),
        ("2026-11-24", "2026-11-25", "line 2: sources.page.read: 2026-11-25 is in the future"),
        ("2026-11-24", "2026-11-24, dated: 2026-12-01", "line 2: sources.page.dated: 2026-12-01 is in the future"),
        ("2026-11-24", "last week", "line 2: sources.page.read: 'last week' is no day; write it as 2026-11-24"),
        ("2026-11-24", "2026", "line 2: sources.page.read: 2026 is no day"),
        ("title: A page, ", "", "line 2: sources.page.title: missing"),
        ("end: 2026-02", "end: soon", "line 4: drivers.0.end: String should match"),
        ("end: 2026-02", "until: 2026-02", "line 4: drivers.0.until: is no field of the file"),
        ("last_driver: R580", "last_driver: R581", "line 9: gpus.0.last_driver: 'R581' is none of the drivers"),
        ("[nvjpeg, cuobjdump]", "[nvjpg]", "'nvjpg' is no component of a CTK release"),
        ('"13.0.0"', '"13.0"', "line 12: vulnerabilities.1.fixed: String should match"),
        ("CVE-2025-0001", "GHSA-1", "String should match"),
        ("CVE-2025-0001", "CVE-2025-0003", "line 10: vulnerabilities: CVE-2025-0003 is stated twice"),
        ('"7.0", ', "7.0, ", "Input should be a valid string, not 7.0"),
    ],
)  # fmt: skip
def test_an_entry_without_a_source_a_date_or_its_form_is_refused_with_its_line(
    old: str, new: str, problem: str
) -> None:
    assert old in TEXT
    with pytest.raises(LockError) as error:
        parse_support(TEXT.replace(old, new, 1), date(2026, 11, 24))
    assert error.value.cause.startswith("support.yaml: ") and problem in error.value.cause
    assert error.value.step.startswith("name the page that says it in variants/support.yaml")


def test_a_slow_clock_stops_nobody_who_reads_the_file() -> None:
    assert parse_support(TEXT.replace("2026-11-24", "9999-01-01")).drivers == SAID.drivers


def test_a_checkout_without_the_file_says_nothing(tmp_path: Path) -> None:
    nothing = load_support(Workspace(tmp_path))
    assert nothing == Support() and nothing.notes("13.1", "7.0") == []


@pytest.mark.parametrize(
    ("driver", "gpu", "notes"),
    [
        ("13.1", "7.0", ["no driver for CUDA 13.1 runs a GPU 7.0: R580, for CUDA 13.0, is the last branch for Volta"]),
        ("13.0", "7.0", []),  # its own branch
        ("13.1", "7.5", []),
        ("13.1", None, []),
        (None, None, []),
        ("12.8", "9.0", ["driver branch R570, for CUDA 12.8, is past its end of life since 2026-02"]),
        ("12.9", None, ["driver branch R575, for CUDA 12.9, is past its end of life"]),
        ("12.7", None, []),  # no page says which branch
    ],
)
def test_what_is_said_of_a_driver_and_a_gpu(driver: str | None, gpu: str | None, notes: list[str]) -> None:
    assert SAID.notes(driver, gpu, date(2026, 3, 1)) == notes


def test_the_month_of_the_end_of_life_still_counts() -> None:
    assert SAID.notes("12.8", "9.0", date(2026, 2, 28)) == []


def locks() -> list[ReleaseLock]:
    versions = {"12.8.1": "12.3.5", "12.9.2": "12.4.0", "13.0.3": "13.0.1"}
    made = []
    for name, number in versions.items():
        lock = release(name, "nvjpeg", "cudart")
        components = {**lock.components, "nvjpeg": replace(lock.components["nvjpeg"], version=number)}
        made.append(replace(lock, components=components))
    return made


def test_a_release_has_what_is_fixed_in_a_newer_one() -> None:
    known = {lock.release: [one.cve for one in SAID.unfixed_of(lock, locks())] for lock in locks()}
    assert known == {
        "12.8.1": ["CVE-2025-0001", "CVE-2025-0002", "CVE-2025-0003"],
        "12.9.2": ["CVE-2025-0002", "CVE-2025-0003"],
        "13.0.3": [],
    }


def test_a_version_between_two_releases_has_what_the_newer_one_mends() -> None:
    """Of 12.9.0, which is not locked any more: the bulletin names 12.9.1."""
    assert next(one.cve for one in SAID.unfixed([("nvjpeg", "12.3.9")], locks())) == "CVE-2025-0001"


def test_what_no_locked_release_mends_is_known_of_every_version() -> None:
    older = locks()[:1]
    assert len(SAID.unfixed([("nvjpeg", "99")], older)) == 3
    assert SAID.unfixed([("cudart", "1")], older) == []


def test_vulnerabilities_are_one_line() -> None:
    found = SAID.unfixed([("nvjpeg", "12.4.0"), ("nvjpeg", "12.4.0")], locks())
    assert in_words(found) == (
        "known vulnerabilities: nvjpeg 12.4.0 (CVE-2025-0002, CVE-2025-0003; fixed in CTK 13.0.0)"
    )
    assert in_words([]) == ""


# --- machines that cannot exist


def test_machines_that_cannot_exist_are_no_part_of_the_matrix(known: OracleFacts) -> None:
    every, fewer = matrix(known, ["cp312"]), matrix(known, ["cp312"], support=SAID)
    gone = set(every.machines) - set(fewer.machines)
    assert gone and {gpu for _, gpu in gone} == {"7.0", "7.2"}
    assert all(version(str(driver)) > (13, 0) for driver, _ in gone)
    assert ("13.0", "7.0") in fewer.machines and ("13.0", "7.0") not in gone
    assert len(every) - len(fewer) == len(gone) * len(every.subdirs) * len(every.requests) * len(every.pins) * 2
    assert {(q.driver, q.arch) for q in every.covering()} & gone
    assert not {(q.driver, q.arch) for q in fewer.covering()} & gone
    assert not {(q.driver, q.arch) for q in fewer.sample(2000, 1)} & gone


def test_a_table_has_an_empty_cell_for_them() -> None:
    cells = {
        (d, g): "" if (d, g) == ("13.1", "7.0") else "12.9"
        for d in (None, "13.0", "13.1")
        for g in ("7.0", "9.0", None)
    }
    _, rows = merged(Answers((None, "13.0", "13.1"), ("7.0", "9.0", None), cells))
    assert [row[:2] for row in rows] == [("no driver", "12.9"), ("13.0", "12.9"), ("13.1 or newer", "")]


def test_the_file_of_this_checkout_takes_volta_and_older_from_drivers_after_13_0(project: Workspace) -> None:
    said = load_support(project)
    old = {gpu for lock in release_locks(project).values() if lock.facts for gpu in lock.facts.gpu_architectures}
    for gpu in sorted(old):
        assert bool(said.impossible("13.1", gpu)) == (version(gpu) < (7, 5)), gpu
        assert not said.impossible("13.0", gpu)


# --- VEX


def bill(lock: ReleaseLock, component: str) -> bytes:
    """The SBOM of a package made from a component of a release."""
    artefact = next(a for a in lock.artefacts if a.component == component and a.target == "linux-64")
    artefact = replace(artefact, version=lock.components[component].version)
    origin = Provenance(
        "lib", "0" * 64, "", "linux-64", 1_757_000_000, (Input(artefact, "Apache-2.0"),), {}, 19, {"ctk": "1"}
    )
    index = {"name": f"lib{component}", "version": artefact.version, "build": "h0_0", "subdir": "linux-64"}
    return sbom.write(index, origin)


def test_vex_names_the_components_of_the_sboms_that_have_a_vulnerability_and_no_others() -> None:
    old, _, new = locks()
    bills = [bill(old, "nvjpeg"), bill(new, "nvjpeg"), bill(old, "cudart"), b'{"nvjpeg": "no SBOM of ours"}', b"nvjpeg"]
    text = sbom.vex(bills, SAID, locks())
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text.decode()) is None
    assert text == sbom.vex(bills, SAID, locks()), "the same input gives the same bytes"
    found = {entry["id"]: entry for entry in json.loads(text)["vulnerabilities"]}
    assert set(found) == {"CVE-2025-0001", "CVE-2025-0002", "CVE-2025-0003"}
    first = json.loads(bills[0])
    (link,) = [entry["ref"] for entry in found["CVE-2025-0001"]["affects"]]
    serial, _, ref = link.removeprefix("urn:cdx:").partition("/1#")
    assert first["serialNumber"] == f"urn:uuid:{serial}"
    assert ref.startswith("pkg%3Apypi%2F")
    assert found["CVE-2025-0001"]["analysis"]["state"] == "exploitable"
    assert found["CVE-2025-0001"]["advisories"] == [{"title": "A page", "url": PAGE}]


def test_what_is_in_no_package_does_not_affect_the_channel() -> None:
    new = locks()[-1]
    (first, *_) = json.loads(sbom.vex([bill(new, "nvjpeg")], SAID, locks()))["vulnerabilities"]
    assert first["analysis"]["state"] == "not_affected"
    assert first["analysis"]["justification"] == "code_not_present"
    assert first["affects"] == [{"ref": "channel"}]
