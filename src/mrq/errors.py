"""What a user is told when something cannot go on."""


class MRQError(Exception):
    """One clear sentence that says what is wrong and what to do. The command line prints it without a traceback."""
