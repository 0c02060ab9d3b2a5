"""Count the code that the wheels ship: ``python tests/net/count.py [--json]``.

Lines of the core and of every plugin that hold code, without blanks, comments and docstrings, the
number of modules, those of features that 0.1.0 had not, and runs of six lines (imports aside) that
stand in more than one place.
"""

import ast
import io
import json
import sys
import tokenize
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parents[2]
SILENT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
"""Tokens that are no code."""
RUN = 6
"""Lines that make a run."""
FEATURES = {
    "ledgers": "budget/ledger/* measure/ledgered cli/budget accounts identity course",
    "vectors and joint queries": "*/radial* */balls */decay certify/steps */vector* */joint* "
    "advisor/wide",
    "means": "*/pair* measure/mean",
    "secret keys": "*/keys */threshold",
    "quantiles": "*/quantiles",
    "Polars queries": "measure/frames/[!_a]* measure/frames/answer",
    "exact Gaussian, zCDP, swapping": "certify/gaussian measure/closed measure/concentrated "
    "measure/natives measure/improve measure/accuracy advisor/epsilon",
    "curves of OpenDP's noise": "budget/losses",
    "spikes, clamped noise": "*/spike* */clamped search/jump",
    "posteriors": "table_posterior/* posterior_command maps density known/coordinate",
    "warehouse": "warehouse/*",
}
"""Modules of what 0.1.0 had not, by what they are for; a module counts once."""


def packages() -> list[Path]:
    """Every folder that goes into a wheel, the core first."""
    return [ROOT / "opendp_optimal", *sorted(ROOT.glob("plugins/*/opendp_optimal_*/"))]


def code_lines(source: str) -> list[str]:
    """The lines that hold code; a string that stands alone, as docstrings do, is none."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in SILENT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    text = source.splitlines()
    return [text[number - 1].strip() for number in sorted(lines)]


def repeats() -> int:
    """How many runs of six lines stand again elsewhere in the wheels; imports do not count."""
    found: Counter[tuple[str, ...]] = Counter()
    for package in packages():
        for path in package.rglob("*.py"):
            lines = code_lines(path.read_text(encoding="utf-8"))
            kept = [x for x in lines if len(x) > 2 and not x.startswith(("from ", "import "))]
            found.update(tuple(kept[i : i + RUN]) for i in range(len(kept) - RUN + 1))
    return sum(times > 1 for times in found.values())


def features() -> dict[str, int]:
    """Lines of code in the modules of each feature that 0.1.0 had not."""
    found = dict.fromkeys(FEATURES, 0)
    for package in packages():
        for path in package.rglob("*.py"):
            place = path.relative_to(package).with_suffix("").as_posix()
            if package.name.endswith("warehouse"):
                place = f"warehouse/{place}"
            for name, patterns in FEATURES.items():
                if any(fnmatch(place, pattern) for pattern in patterns.split()):
                    found[name] += len(code_lines(path.read_text(encoding="utf-8")))
                    break
    return found


def counts() -> dict[str, dict[str, int]]:
    """Lines of code and modules of every package, and of all together."""
    found = {}
    for package in packages():
        modules = sorted(package.rglob("*.py"))
        found[package.name] = {
            "lines": sum(len(code_lines(path.read_text(encoding="utf-8"))) for path in modules),
            "modules": len(modules),
        }
    found["total"] = {
        key: sum(package[key] for package in found.values()) for key in ("lines", "modules")
    }
    return found


if __name__ == "__main__":
    table = counts()
    if "--json" in sys.argv[1:]:
        print(json.dumps(table))
    else:
        for name, row in table.items():
            print(f"{name:<24}{row['lines']:>7} lines{row['modules']:>5} modules")
        new = features()
        for name, lines in new.items():
            print(f"  {name:<30}{lines:>7} lines")
        rest = table["total"]["lines"] - sum(new.values())
        print(f"new since 0.1.0: {sum(new.values())} lines, all else: {rest}")
        print(f"runs of {RUN} lines that stand twice or more: {repeats()}")
