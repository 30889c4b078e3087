"""Common parts of strict readers of file formats."""


class FormatError(Exception):
    """A file breaks a rule of its format."""


def require(condition, rule):
    if not condition:
        raise FormatError(rule)
