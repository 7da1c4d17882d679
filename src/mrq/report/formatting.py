"""Short forms of numbers and words."""


def short(value: float) -> str:
    """Returns 12,500 as 12.5k and 1,000,000 as 1M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.6g}{letter}"
    return f"{value:.4g}" if abs(value) > 1e-9 else "0"


def counted(number: int, thing: str) -> str:
    """Returns "1 run" or "1,200 runs"."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def shortened(content: str, letters: int) -> str:
    """Returns at most so many letters; an ellipsis replaces the rest."""
    return content if len(content) <= letters else content[: letters - 1] + "…"
