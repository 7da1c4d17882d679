"""Which OpenGL draws MuJoCo's pictures.

MuJoCo and dm_control pick their renderer while they are imported, and cannot be imported where the one MUJOCO_GL names
is missing. Whoever wants no picture must not care.
"""

import importlib
import os
from contextlib import AbstractContextManager
from ctypes.util import find_library

from mrq.environments.variables import variables
from mrq.errors import one_line

PACKAGES = {"egl": "libegl1", "osmesa": "libosmesa6"}  # the system's, for each renderer


def chosen_renderer() -> str:
    """The one MUJOCO_GL names; else EGL, or OSMesa where that alone is there."""
    only_osmesa = find_library("OSMesa") and not find_library("EGL")
    return os.environ.get("MUJOCO_GL") or ("osmesa" if only_osmesa else "egl")


def advice(error: Exception) -> str:
    """What to do where drawing failed."""
    named = os.environ.get("MUJOCO_GL")
    if named:
        package = PACKAGES.get(named.lower())
        remedy = "unset it" + (f", or install the system package {package}" if package else "")
        return f"MUJOCO_GL is {named!r}, which does not work here ({one_line(error)}); {remedy}."
    return (
        "drawing needs OpenGL without a screen; install the system package libegl1, or libosmesa6 and set "
        f"MUJOCO_GL=osmesa ({one_line(error)})."
    )


def import_mujoco() -> None:
    try:
        importlib.import_module("mujoco")
    except ModuleNotFoundError:
        raise
    except Exception:  # of any kind: each renderer is missed in its own way
        with renderer("disable"):
            importlib.import_module("mujoco")


def renderer(name: str) -> AbstractContextManager[None]:
    """MUJOCO_GL for as long as a module that reads it is imported; "disable" is none."""
    return variables({"MUJOCO_GL": name})
