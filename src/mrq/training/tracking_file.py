"""tracking.json: the runs of trackers that a run folder belongs to, and how much they were told."""

import json
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path

from mrq.bounds import MOST_STEPS
from mrq.errors import DAMAGE, MRQError
from mrq.files import read_text, written_aside

TRACKING = "tracking.json"
LARGEST = 1_000_000  # bytes


@dataclass
class Tracked:
    """A tracker's run."""

    run: str  # by which the tracker finds it
    told: dict[str, int] = field(default_factory=dict)  # the last step that it was told of, by kind of values

    def __post_init__(self) -> None:
        # It becomes a part of paths and addresses, and may come from a stranger.
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}", self.run):
            raise ValueError("it names a run that no tracker has")
        if not all(isinstance(step, int) and -1 <= step <= MOST_STEPS for step in self.told.values()):
            raise ValueError("it has a step that no training takes")


def read_tracking(folder: Path) -> dict[str, Tracked]:
    """Returns a run folder's runs of trackers, by tracker."""
    try:
        document = json.loads(read_text(folder / TRACKING, LARGEST))
        return {name: Tracked(**tracked) for name, tracked in document.items()}
    except FileNotFoundError:
        return {}
    except DAMAGE as error:
        raise MRQError(f"{folder / TRACKING} cannot be read ({error}); remove it to begin new runs there.") from None


def write_tracking(folder: Path, tracker: str, tracked: Tracked) -> None:
    """Records a tracker's run."""
    document = read_tracking(folder) | {tracker: tracked}
    with written_aside(folder / TRACKING) as file:
        file.write((json.dumps({name: asdict(each) for name, each in document.items()}, indent=1) + "\n").encode())
