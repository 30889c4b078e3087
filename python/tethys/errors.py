"""The errors of the package, which stand for the exit statuses of the command."""
import re

PLACE = re.compile(r"(--(?:set|vary)=\S*|[^\s:][^:\n]*:\d+:\d+): ")


class BadJob(ValueError):
    """The request was wrong, and nothing was started (exit status 2).

    place: FILE:LINE:COLUMN, or the change or argument that is wrong; "job" stands for a job that is no file. Empty if
           the error is at no such place.
    message: what is wrong, and what to do.
    """

    def __init__(self, message, place=""):
        super().__init__(f"{place}: {message}" if place else message)
        self.message, self.place = message, place

    @classmethod
    def of(cls, text):
        """The error that the command printed."""
        place = PLACE.match(text)
        return cls(text[place.end():], place[1]) if place else cls(text)


class RunFailed(RuntimeError):
    """The run failed, or was ended from outside (exit status 1). The message is the command's: the first failure.

    run: the Run, if there is one.
    culprit: the process that failed first, such as "worker 1"; empty if the run did not fail by a process.
    """

    def __init__(self, message, run=None):
        super().__init__(message)
        self.run = run
        failure = run.summary.get("first_failure", {}) if run else {}
        self.culprit = f"{failure['role']} {failure.get('index', 0)}" if failure.get("role") else ""


class Interrupted(KeyboardInterrupt):
    """Python was interrupted. The run has saved a checkpoint, unless it had not begun or was interrupted twice.

    run: the Run, whose `resume` goes on; None if the command was no run.
    """

    def __init__(self, run=None):
        super().__init__(f"go on by tethys.Run({str(run.path)!r}).resume()" if run else "")
        self.run = run
