"""All commands: name, and ``module:function`` in this folder.

The function's docstring is the help; it ends with ``Example:`` and a line for each. `command_line` adds --json, -q, -v
and --debug: what a command finds goes to `Reporter.result`, and docs/json.md has its keys.
"""

from __future__ import annotations

from ctk.cli.command_line import Folder, Table

COMMANDS: Table = {
    "doctor": "doctor:doctor_command",
    "plan": "build:plan_command",
    "fetch": "build:fetch_command",
    "build": "build:build_command",
    "lint": "lint:lint_command",
    "audit": "audit:audit_command",
    "solve": "use:solve_command",
    "prove": "use:prove_command",
    "verify": "verify:verify_command",
    "rebuild": "rebuild:rebuild_command",
    "publish": "publish:publish_command",
    "channel": Folder(
        "Check a channel, and return to an older state of it.",
        {
            "check": "channel:check_command",
            "history": "channel:history_command",
            "rollback": "channel:rollback_command",
        },
    ),
    "env": Folder(
        "Environments made from the channel.",
        {
            "create": "environment:create_command",
            "run": "environment:run_command",
            "check": "environment:check_command",
            "pack": "environment:pack_command",
        },
    ),
    "site": Folder("The channel's site.", {"build": "site:build_command"}),
    "feedstock": Folder("Recipes as feedstocks of their own.", {"export": "feedstock:export_command"}),
    "release": Folder(
        "Release locks: add, check, list, measure, compare.",
        {
            "add": "release:add_command",
            "measure": "release:measure_command",
            "check": "release_check:check_command",
            "list": "release_list:list_command",
            "diff": "difference:diff_command",
        },
    ),
}
