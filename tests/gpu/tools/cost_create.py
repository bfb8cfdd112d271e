"""Makes one environment of a local channel with rattler, as a conda client does: solve, unpack, link. For `cost.py`."""

import argparse
import sys
from pathlib import Path

import rattler
from rattler.package.build_string import BuildString

sys.path.append(str(Path(__file__).resolve().parents[3] / "scripts"))

from ctk.core.process import run


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("channel", type=Path)
    parser.add_argument("prefix", type=Path)
    parser.add_argument("--cache", type=Path, required=True, help="where unpacked packages are kept; empty at first")
    parser.add_argument("--platform", required=True)
    parser.add_argument("--virtual", action="append", default=[], help="__cuda=13.0")
    parser.add_argument("specs", nargs="+")
    options = parser.parse_args()
    virtual = [
        rattler.GenericVirtualPackage(rattler.PackageName(name), rattler.Version(version), BuildString("0"))
        for name, _, version in (text.partition("=") for text in options.virtual)
    ]
    records = await rattler.solve(
        sources=[options.channel.resolve().as_uri()],
        specs=[rattler.MatchSpec(spec) for spec in options.specs],
        platforms=[options.platform, "noarch"],
        virtual_packages=virtual,
    )
    await rattler.install(
        records,
        target_prefix=options.prefix,
        cache_dir=options.cache,
        platform=rattler.Subdir(options.platform),
        show_progress=False,
    )


run(main())
