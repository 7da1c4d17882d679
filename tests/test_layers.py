"""Keeps the arrows of the design: data flows one way, and what stands earlier knows nothing of what stands later."""

import ast
from pathlib import Path

import mrq

SOURCE = Path(mrq.__file__).parent
NEUTRAL = {"errors", "execution", "hyperparameters", "interface", "padding", "version"}
ALLOWED = {
    "errors": set(),
    "version": set(),
    "interface": {"errors"},
    "execution": set(),
    "padding": set(),
    "hyperparameters": {"errors"},
    "randomness": set(),
    "algorithm": NEUTRAL,
    "replay": NEUTRAL,
    "environments": NEUTRAL,
    "training": NEUTRAL | {"randomness", "algorithm", "replay", "environments", "terminal"},
    "baselines": NEUTRAL | {"algorithm", "environments", "training"},
    "benchmark": NEUTRAL | {"baselines", "environments", "replay", "training", "terminal"},
    "report": NEUTRAL | {"benchmark", "environments", "training"},
    "agent": NEUTRAL | {"randomness", "environments", "training"},
    "cli": NEUTRAL | {"environments", "training", "benchmark", "report", "terminal"},
    "terminal": set(),
    "theory": {"interface"},
    "__init__": {"agent", "environments", "errors", "hyperparameters", "version"},
    "__main__": {"cli"},
}
LIBRARIES_OF_THE_ALGORITHM = {"torch", "numpy", "math", "collections", "functools", "typing", "mrq"}


def station(module: str) -> str:
    return module.split(".")[1] if "." in module else "__init__"


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            if node.module == "mrq":
                found |= {f"mrq.{alias.name}" for alias in node.names}
            else:
                found.add(node.module)
    return found


def test_no_arrow_points_back():
    wrong = []
    for path in SOURCE.rglob("*.py"):
        relative = path.relative_to(SOURCE)
        here = relative.parts[0].removesuffix(".py")
        for module in imports(path):
            if module.split(".")[0] == "mrq" and station(module) not in ALLOWED[here] | {here}:
                wrong.append(f"{relative} imports {module}")
    assert not wrong


def test_the_algorithm_needs_torch_and_numpy_alone():
    for path in (SOURCE / "algorithm").glob("*.py"):
        assert {module.split(".")[0] for module in imports(path)} <= LIBRARIES_OF_THE_ALGORITHM, path
