"""`kubesched config validate|show|diff`: what is wrong with a configuration, what it means, how two differ.

Exit codes: `validate` 1 when a file is not valid; `diff` 1 when the configurations differ; 2 as everywhere.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kubesched.config import Configuration, FeatureGates, PluginInfo
    from kubesched.config.compare import Difference


def add_parser(commands: Any) -> None:
    parser = commands.add_parser("config", help="validate, show and compare configurations")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    validate = actions.add_parser("validate", help="say what is wrong with configurations, as a start would")
    validate.add_argument("files", nargs="+", type=Path, metavar="FILE")
    show = actions.add_parser("show", help="show a configuration with all its defaults")
    show.add_argument("file", nargs="?", type=Path, metavar="FILE", help="default: the built-in configuration")
    show.add_argument("-o", "--output", choices=("yaml", "json"), default="yaml")
    show.add_argument("--effective", action="store_true", help="which plugins run at which extension point instead")
    diff = actions.add_parser("diff", help="say how two configurations differ in what they do")
    diff.add_argument("files", nargs="+", type=Path, metavar="FILE", help="two, or one to compare with the defaults")
    diff.add_argument("-o", "--output", choices=("text", "json"), default="text")
    for action, run in ((validate, _validate), (show, _show), (diff, _diff)):
        action.add_argument("--feature-gates", default="", metavar="A=true,B=false")
        action.add_argument(
            "--plugin", action="append", default=[], metavar="FILE:CLASS|MODULE:CLASS", help="a plugin of your own"
        )
        action.set_defaults(run=run)


def _validate(args: argparse.Namespace) -> int:
    from kubesched import logs
    from kubesched.config import ConfigError

    logs.setup()
    reader = _Reader(args)
    code = 0
    for path in args.files:
        try:
            config = reader.load(path)
        except ConfigError as error:
            print(error, file=sys.stderr)
            code = 1
            continue
        profiles = ", ".join(profile.scheduler_name for profile in config.profiles)
        print(f"{path}: valid, profiles {profiles}")
    return code


def _show(args: argparse.Namespace) -> int:
    import json

    from kubesched.config import dump, expand, to_dict

    reader = _Reader(args)
    config = reader.load(args.file)
    if args.effective:
        profiles = {
            profile.scheduler_name: {
                point: [f"{name} {weight}" if weight else name for name, weight in plugins]
                for point, plugins in expand(profile, reader.known).items()
            }
            for profile in config.profiles
        }
        if args.output == "json":
            print(json.dumps(profiles, indent=2))
            return 0
        for name, points in profiles.items():
            print(f"{name}:")
            for point, plugins in points.items():
                print(f"  {point}: {', '.join(plugins) or '-'}")
        return 0
    print(json.dumps(to_dict(config), indent=2) if args.output == "json" else dump(config).rstrip())
    return 0


def _diff(args: argparse.Namespace) -> int:
    import json

    import msgspec

    from kubesched.api.errors import KubeschedError
    from kubesched.config.compare import differences

    if len(args.files) > 2:
        raise KubeschedError("config diff wants one or two files")
    reader = _Reader(args)
    first = reader.load(args.files[0]) if len(args.files) == 2 else reader.load(None)
    found = differences(first, reader.load(args.files[-1]), reader.known)
    if args.output == "json":
        print(json.dumps(msgspec.to_builtins(found), indent=2))
    else:
        _print(found)
    return 1 if found else 0


def _print(found: list[Difference]) -> None:
    profile = None
    for each in found:
        if each.profile != profile:
            profile = each.profile
            print(f"profile {profile}" if profile else "all profiles")
        what = f"{each.place}: {each.what}" if each.what else each.place
        if each.before is None:
            print(f"  + {what} {_text(each.after)}")
        elif each.after is None:
            print(f"  - {what} {_text(each.before)}")
        else:
            print(f"  ~ {what} {_text(each.before)} -> {_text(each.after)}")


def _text(value: Any) -> str:
    import json

    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ", ".join(value)
    return value if isinstance(value, str) and value else json.dumps(value)


class _Reader:
    """Reads configurations with the plugins and gates of the command line."""

    def __init__(self, args: argparse.Namespace) -> None:
        from kubesched import config
        from kubesched.app import plugin_loading

        self.gates: FeatureGates = config.parse_feature_gates(args.feature_gates)
        self._infos = plugin_loading.find(args.plugin).infos
        self.known: Mapping[str, PluginInfo] = config.with_out_of_tree(self._infos)

    def load(self, path: Path | None) -> Configuration:
        from kubesched import config

        return config.load(path, plugins=self._infos, gates=self.gates)
