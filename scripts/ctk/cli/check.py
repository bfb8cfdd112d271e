"""`ctk check`: a channel against its index, packages against rules, or made again."""

from __future__ import annotations

from pathlib import Path

from ctk.cli.options import CheckOptions, asked_channels, with_options
from ctk.core.checkout import channel_missing, refuse_unshown, refuse_without_recipes, workspace
from ctk.core.errors import UnknownName


@with_options
def check_command(options: CheckOptions) -> None:
    """Check a channel, or packages.

    For a channel, it compares every file with the index, and the index with the packages: hashes,
    sizes, metadata, payloads, run exports, SBOMs, attestations, and files that nothing names. It
    needs the network only for URLs and buckets. For packages, and those of output/channel and
    output/base, it checks the rules of the design on the whole set: what a package depends on must
    be in the set, in the base channel, or well known. With --rebuild, it builds packages again from
    their own metadata, which names the commit of the recipe, the variant and the sha256 of each
    artefact. It fetches what is missing.

    Examples: ctk check
    ctk check s3://channels/cuda
    ctk check --published https://conda.example.org/cuda
    ctk check ./some.conda --check NeededIsProvided
    ctk check --rebuild 10

    JSON:
    Of a channel:

    - `ok`, `packages` (how many), `size`, `sboms`, `without_sbom` (packages of others),
      `seconds`; `attestations`: signer -> how many; `unverified`: how many packages have
      attestations that were made with a key, while no key was named
    - `problems`: `package`, `check`, `what`

    Of packages, and besides for the built channel and its base channel:

    - `ok`, `packages` (how many), `seconds`
    - `checks`: check -> number of its findings; with `--list` a list of `check`, `looks_at` and
      `rule`
    - `findings`: `check`, `severity`, `package`, `path`, `message`, `fix`

    Of both, without `--check`:

    - `files`: each package with files of wheels: `package`, `published` (how many are as their
      wheel has them), `changed` (`path`, `why`, `sha256`, `word`), `licences` (kinds of texts),
      `words` (what the texts say -> how many files), `not_named` (paths). A word is `attachment-a`,
      `clause-2.3`, `sdk-licence`, `open-source` or `not-named`

    With `--rebuild`, instead:

    - `rebuilt`: `package`, `identical`, `differences` (`where`, `what`)
    """
    if options.list_:
        from ctk.cli.work import audit  # late, as the others: help and a wrong name do without

        audit.list_rules()
        return
    if options.rebuild is not None:
        refuse_without_recipes(workspace())
    names = _places(options)
    if options.rebuild is not None:
        from ctk.cli.work import rebuild

        rebuild.rebuild_places(names, options.rebuild, options.jobs)
        return
    from ctk.cli.work import check

    check.check_places(names, options)


def _own_channel() -> str:
    """The built channel; without a checkout, the first of the user's own."""
    where = workspace()
    if where.is_checkout:
        return str(where.channel)
    channels, _ = asked_channels((), "local")
    return channels[0]


def _places(options: CheckOptions) -> list[str]:
    """The places to check, by default the built channel.

    Raises:
        UnknownName, ChannelMissing: A place does not exist: a check of it would pass for ever.
    """
    names = options.places or [_own_channel()]
    for name in names:
        refuse_unshown(Path(name))
    others = [*map(str, options.base or ())]
    if options.published:
        others.append(options.published)
    for name in (*names, *others):
        if "://" in name or Path(name).exists():
            continue
        if name.endswith(".conda"):
            raise UnknownName(
                f"there is no {name}", "name a package file, a folder of packages, or a channel"
            )
        raise channel_missing(name)
    return names
