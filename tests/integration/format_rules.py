"""What strict readers of a file format have in common."""


class FormatError(Exception):
    """A rule of the format that a file breaks."""


def require(condition, rule):
    if not condition:
        raise FormatError(rule)
