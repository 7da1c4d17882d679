"""Installs small packages, as pip would, for tests of what is said about packages."""

from pathlib import Path


class Site:
    """A folder of installed packages."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def install(self, name: str, sources: dict[str, str], requires: str = "gymnasium", entry_points: str = "") -> None:
        """Installs a distribution with these source files, by their paths."""
        information = self.folder / f"{name.replace('-', '_')}-1.0.dist-info"
        information.mkdir()
        (information / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\nRequires-Dist: {requires}\n"
        )
        (information / "RECORD").write_text("".join(f"{path},,\n" for path in sources))
        (information / "entry_points.txt").write_text(entry_points)
        for path, source in sources.items():
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / path).write_text(source)
