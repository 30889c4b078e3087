"""What the verbs other than `train` answer."""
import html
from pathlib import Path

from tethys.run import runs
from tethys.tables import read_csv


class Answer:
    """The text that a verb prints."""

    def __init__(self, text):
        self.text = text

    def __str__(self):
        return self.text

    def _repr_html_(self):
        return f"<pre>{html.escape(self.text)}</pre>"


class Plan(Answer):
    """What a job would be: processes, memory, bytes, times."""


class Advice(Answer):
    """Which strategy and how many processes suit a job.

    job: the job to run. hostfile: the machines for it; None: this machine.
    """

    def __init__(self, text, job, hostfile):
        super().__init__(text)
        self.job, self.hostfile = job, hostfile


class Comparison(Answer):
    """How several jobs compare.

    path: the directory of the comparison. verdict: the part of the text that answers.
    """

    def __init__(self, path, text):
        super().__init__(text)
        self.path = Path(path)
        self.verdict = text.partition("\nVerdict\n")[2].partition("\nresults in ")[0].strip()

    def runs(self):
        """The runs, the newest last."""
        return runs(self.path)

    def table(self):
        """A row for each run and for each row of the table that the command prints."""
        return read_csv(self.path / "comparison.csv")

    def report(self):
        """The path of the page that shows the comparison."""
        return self.path / "report.html"
