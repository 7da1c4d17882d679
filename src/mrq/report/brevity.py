"""Numbers and words that must not take much room."""


def short(value: float) -> str:
    """12,500 as 12.5k, 1,000,000 as 1M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.6g}{letter}"
    return f"{value:.4g}" if abs(value) > 1e-9 else "0"


def counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def shortened(content: str, letters: int) -> str:
    return content if len(content) <= letters else content[: letters - 1] + "…"
