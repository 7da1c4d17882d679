"""Elements of HTML and SVG as text, with everything escaped that others wrote."""

import re
from html import escape

UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")  # what XML does not allow


def element(name: str, *children: str, **attributes: str | float) -> str:
    """Attributes are escaped, children are not. `class_` is class, `font_size` font-size; empty ones are left out."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(value) if isinstance(value, str) else number(value)}"'
        for key, value in attributes.items()
        if value != ""
    )
    return f"<{name}{written}>{''.join(children)}</{name}>"


def escaped(content: str) -> str:
    return escape(UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", content))


def number(value: float) -> str:
    """To a tenth of a point."""
    return f"{round(value, 1) + 0.0:.1f}".removesuffix(".0")  # + 0.0, since -0 is no number to print
