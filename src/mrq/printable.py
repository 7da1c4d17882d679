"""Text from outside, such as names in a run folder, without the characters that could change a terminal or a page."""


def printable(text: str) -> str:
    """Returns text of the same length: white space becomes a space, and what has no glyph a replacement character.

    That leaves no control characters, no line breaks, no changes of the text's direction and no halves of characters.
    """
    return "".join(c if c.isprintable() else " " if c.isspace() else "\N{REPLACEMENT CHARACTER}" for c in text)


def is_encodable(text: str) -> bool:
    """Says whether text has no halves of characters, so that files can hold it."""
    return not any("\ud800" <= c <= "\udfff" for c in text)


def condensed(text: str) -> str:
    """Returns printable text with single spaces between its words."""
    return " ".join(printable(text).split())
