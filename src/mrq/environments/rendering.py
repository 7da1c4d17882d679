"""Chooses the OpenGL renderer for MuJoCo's pictures.

MuJoCo and dm_control choose their renderer when they are imported, and the import fails if the one in MUJOCO_GL is
missing. A task that needs no pictures must work without a renderer.
"""

import importlib
import os
import sys
from contextlib import AbstractContextManager
from ctypes.util import find_library

from mrq.errors import one_line
from mrq.processes import SAFE_PATH, environment_variables

PACKAGES = {"egl": "libegl1", "osmesa": "libosmesa6"}  # of the operating system, by renderer


def chosen_renderer() -> str:
    """Returns the one that MUJOCO_GL names, otherwise EGL, or OSMesa if only that is installed; on macOS, GLFW."""
    if named := os.environ.get("MUJOCO_GL"):
        return named
    if sys.platform == "darwin":
        return "glfw"
    return "osmesa" if find_library("OSMesa") and not find_library("EGL") else "egl"


def advice(error: BaseException) -> str:
    """Returns why rendering failed and what to do about it, as a part of a message."""
    named = os.environ.get("MUJOCO_GL")
    if named:
        package = PACKAGES.get(named.lower())
        remedy = "unset it" + (f", or install the system package {package}" if package else "")
        return f"MUJOCO_GL is {named!r}, which does not work here ({one_line(error)}); {remedy}."
    if sys.platform == "darwin":
        return f"rendering on macOS needs GLFW and a screen ({one_line(error)})."
    return (
        "rendering without a screen needs OpenGL; install the system package libegl1, or libosmesa6 and set "
        f"MUJOCO_GL=osmesa ({one_line(error)})."
    )


def import_mujoco() -> None:
    """Imports MuJoCo, without a renderer if its own does not work."""
    try:
        importlib.import_module("mujoco")
    except ModuleNotFoundError:
        raise
    except Exception:  # each missing renderer raises another kind
        with renderer("disable"):
            importlib.import_module("mujoco")


def renderer(name: str) -> AbstractContextManager[None]:
    """Sets MUJOCO_GL while a module that reads it is imported; "disable" means no renderer.

    Of the renderers, GLFW starts Python, which must not look for modules in the current folder.
    """
    return environment_variables({"MUJOCO_GL": name, SAFE_PATH: "1"})
