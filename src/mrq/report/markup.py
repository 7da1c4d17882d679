"""Elements of HTML and SVG as text. Everything that comes from outside is escaped."""

from html import escape

from mrq.printable import printable


def element(name: str, *children: str, **attributes: str | float) -> str:
    """Returns an element; attributes are escaped, children are not.

    `class_` is written as class and `font_size` as font-size. Empty attributes are omitted.
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(value) if isinstance(value, str) else number(value)}"'
        for key, value in attributes.items()
        if value != ""
    )
    return f"<{name}{written}>{''.join(children)}</{name}>"


def escaped(content: str) -> str:
    """Returns printable text whose special characters are escaped for HTML and SVG."""
    return escape(printable(content))


def number(value: float) -> str:
    """Returns a number rounded to a tenth."""
    return f"{round(value, 1) + 0.0:.1f}".removesuffix(".0")  # + 0.0 turns -0 into 0
