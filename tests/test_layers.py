"""Keeps the arrows of the design: data flows one way, and what comes earlier knows nothing of what comes later."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import mrq
from mrq.algorithms.registry import ALGORITHMS

SOURCE = Path(mrq.__file__).parent
NEUTRAL = {
    *("bounds", "errors", "execution", "files", "interface", "markdown", "memory", "padding", "printable", "processes"),
    *("restoring", "version"),
}
ALLOWED = {
    "printable": set(),
    "bounds": {"errors"},
    "errors": {"printable"},
    "files": set(),
    "markdown": {"printable"},
    "version": set(),
    "execution": {"processes"},
    "interface": {"errors", "execution"},
    "memory": {"errors"},
    "padding": set(),
    "processes": set(),
    "randomness": set(),
    "restoring": set(),
    "terminal": {"printable"},
    "replay": NEUTRAL,
    "environments": NEUTRAL,
    "algorithms": NEUTRAL | {"randomness"},
    "baselines": NEUTRAL | {"algorithms"},
    "training": NEUTRAL | {"randomness", "algorithms", "replay", "environments", "terminal"},
    "benchmark": NEUTRAL | {"algorithms", "environments", "replay", "training", "terminal"},
    "report": NEUTRAL | {"algorithms", "benchmark", "environments", "training"},
    "export": NEUTRAL | {"algorithms", "environments"},
    "policy": NEUTRAL | {"randomness", "algorithms", "environments", "training", "terminal", "export"},
    "callbacks": NEUTRAL | {"agent", "terminal", "training"},  # the agent as a type alone
    "agent": NEUTRAL | {"randomness", "algorithms", "environments", "training", "terminal", "policy", "callbacks"},
    "hub": NEUTRAL | {"environments", "policy", "report", "training"},
    "cli": NEUTRAL | {"algorithms", "environments", "training", "benchmark", "report", "terminal", "policy", "hub"},
    "theory": {"interface"},
    "__init__": {"agent", "algorithms", "environments", "errors", "policy", "version"},
    "__main__": {"cli"},
}
NATIVE = ("mrq", "drqv2")  # algorithms whose arithmetic is ours
LIBRARIES_OF_ALGORITHMS = {
    *("__future__", "torch", "numpy", "math", "collections", "concurrent", "contextlib", "dataclasses", "functools"),
    *("importlib", "typing", "mrq"),
}
SLOW_TO_IMPORT = {
    *("torch", "gymnasium", "tensorboard", "safetensors", "matplotlib", "imageio", "fsspec", "scipy"),
    *("mujoco", "dm_control", "ale_py", "stable_baselines3", "ray"),
}
COMPILING = ("torch.compile(", "torch.compiler", "CUDAGraph", "cuda.graph", "cuda.Stream", "wait_stream")


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


def test_algorithms_need_torch_and_numpy_alone():
    for path in (SOURCE / "algorithms").rglob("*.py"):
        assert {module.split(".")[0] for module in imports(path)} <= LIBRARIES_OF_ALGORITHMS, path


def test_no_algorithm_knows_another():
    for name in NATIVE:
        for path in (SOURCE / "algorithms" / name).rglob("*.py"):
            others = {f"mrq.algorithms.{other}" for other in NATIVE if other != name}
            assert not any(module.startswith(tuple(others)) for module in imports(path)), path


def test_only_the_registry_names_an_algorithms_package():
    """Except for the package's face, which offers MR.Q's hyperparameters."""
    packages = tuple({place.partition(":")[0] for place in ALGORITHMS.values()} | {"mrq.baselines"})
    for path in SOURCE.rglob("*.py"):
        relative = path.relative_to(SOURCE)
        inside = relative.parts[0] == "baselines" or relative.parts[:2] in [("algorithms", name) for name in NATIVE]
        if not inside and relative != Path("__init__.py"):
            assert not any(module.startswith(packages) for module in imports(path)), path


def test_only_execution_knows_how_work_is_compiled_and_captured():
    for path in SOURCE.rglob("*.py"):
        if path.name != "execution.py":
            found = [word for word in COMPILING if word in path.read_text()]
            assert not found, f"{path} has {found}"


def test_methods_are_neither_set_nor_overwritten():
    """Private names stay in their module, too."""
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "setattr":
                raise AssertionError(f"{path}:{node.lineno} uses setattr")
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mrq"):
                private = [
                    alias.name for alias in node.names if alias.name.startswith("_") and alias.name != "__version__"
                ]
                assert not private, f"{path} imports {private}"


@pytest.mark.parametrize("module", ["mrq.report.report", "mrq.environments.workers", "mrq.training.run_folder"])
def test_reading_runs_and_stepping_environments_do_without_pytorch(module):
    code = f"import sys, {module}; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_importing_the_package_imports_no_library():
    code = "import sys; before = set(sys.modules); import mrq; print(*sorted(sys.modules.keys() - before))"
    ended = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert ended.stdout.split() == ["mrq", "mrq.version"]


def test_help_needs_none_of_the_libraries_that_take_long_to_import():
    code = "import atexit, sys; atexit.register(lambda: print(*sys.modules)); from mrq.cli import main; main()"
    command = [sys.executable, "-c", code, "train", "--help"]
    *text, modules = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    assert any("--replay-capacity" in line for line in text)
    assert not SLOW_TO_IMPORT & set(modules.split())
