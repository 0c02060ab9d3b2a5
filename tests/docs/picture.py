"""The import picture of the architecture page, made of the imports themselves."""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import grimp

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "architecture.md"
FIRST, LAST = "<!-- picture: make reference -->", "<!-- end of the picture -->"
Rooms = dict[str, set[str]]


def rooms() -> Rooms:
    """For each room of the core, the rooms that its modules import.

    What the contract of the layers lets pass, late imports inside functions, is left out.
    """
    settings = tomllib.loads((PAGE.parents[2] / "pyproject.toml").read_text())["tool"]
    (layers,) = [c for c in settings["importlinter"]["contracts"] if c["type"] == "layers"]
    late = {tuple(line.split(" -> ")) for line in layers["ignore_imports"]}
    graph = grimp.build_graph("opendp_optimal", exclude_type_checking_imports=True, cache_dir=None)
    found: Rooms = {child.split(".")[1]: set() for child in graph.find_children("opendp_optimal")}
    for module in graph.modules:
        room = module.split(".")[1:2]
        for other in graph.find_modules_directly_imported_by(module):
            there = other.split(".")[1:2]
            if room and there and room != there and (module, other) not in late:
                found[room[0]].update(there)
    return found


def above(found: Rooms, room: str) -> set[str]:
    """Everything that a room reaches, directly or not."""
    reached: set[str] = set()
    waiting = [room]
    while waiting:
        for other in found[waiting.pop()] - reached:
            reached.add(other)
            waiting.append(other)
    return reached


def arrows(found: Rooms) -> Iterator[tuple[str, str]]:
    """The imports between rooms, without those that others imply."""
    for room, others in sorted(found.items()):
        implied = set().union(*(above(found, other) for other in others))
        yield from ((room, other) for other in sorted(others - implied))


def first_line(room: str) -> str:
    """What a room says of itself."""
    folder = PAGE.parents[2] / "opendp_optimal"
    place = folder / room / "__init__.py" if (folder / room).is_dir() else folder / f"{room}.py"
    said = ast.get_docstring(ast.parse(place.read_text())) or ""
    return said.split("\n\n")[0].replace("\n", " ").replace("``", "`")


def picture() -> str:
    """A diagram of the arrows, and a table of the rooms from the bottom up."""
    found = rooms()
    order = sorted(found, key=lambda room: (len(above(found, room)), room))
    lines = ["```mermaid", "graph TD"]
    lines += [f"    {room} --> {other}" for room, other in arrows(found)]
    lines += ["```", "", "| room | what it is | imports |", "|---|---|---|"]
    for room in order:
        imports = ", ".join(sorted(found[room])) or "nothing"
        lines.append(f"| `{room}` | {first_line(room)} | {imports} |")
    return "\n".join(lines) + "\n"


def with_picture(page: str) -> str:
    """A page whose picture is that of the code."""
    before, _, rest = page.partition(FIRST)
    _, _, after = rest.partition(LAST)
    return f"{before}{FIRST}\n\n{picture()}\n{LAST}{after}"


if __name__ == "__main__":
    PAGE.write_text(with_picture(PAGE.read_text()))
