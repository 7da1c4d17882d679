"""A listener that keeps what it is told."""

from mrq.training.listeners.listener import Listener


class Recording(Listener):
    """Keeps every event: its name, then its arguments."""

    def __init__(self):
        self.events = []

    @property
    def messages(self):
        """Returns the messages, in order."""
        return self.all("message")

    def all(self, name):
        """Returns the arguments of all events of one name; without their tuple where there is only one."""
        found = [arguments for other, *arguments in self.events if other == name]
        return [arguments[0] if len(arguments) == 1 else tuple(arguments) for arguments in found]

    def training_begins(self, training):
        self.events.append(("training_begins", training))

    def step(self, steps, steps_per_second):
        self.events.append(("step", steps, steps_per_second))

    def episodes_end(self, steps, episodes):
        self.events.append(("episodes_end", steps, episodes))

    def metrics(self, steps, metrics, steps_per_second):
        self.events.append(("metrics", steps, metrics, steps_per_second))

    def evaluation(self, steps, evaluations, seconds):
        self.events.append(("evaluation", steps, evaluations, seconds))

    def checkpoint(self, steps, agent):
        self.events.append(("checkpoint", steps, agent))

    def message(self, text):
        self.events.append(("message", text))

    def agent_fails(self, agent, fault):
        self.events.append(("agent_fails", agent, fault))

    def training_ends(self, steps):
        self.events.append(("training_ends", steps))
