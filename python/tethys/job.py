"""A job for the command: a job file, the text of one, or a dict, with changes."""
import os
import re
from pathlib import Path

from tethys.errors import BadJob
from tethys.job_text import text_of
from tethys.program import flag_words, output_of, run_command

# Parts of a job's text that top_level skips or counts.
TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|#[^\n]*|[{}<>]|\b\w+(?=\s*:)')


def top_level(text):
    """The names of the fields outside all messages."""
    depth, names = 0, set()
    for token in TOKEN.findall(text):
        if token in "{<":
            depth += 1
        elif token in "}>":
            depth -= 1
        elif depth == 0:
            names.add(token)
    return names


def value_text(value):
    """A value as in --set=FIELD=VALUE."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(value_text(one) for one in value)
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


class Job:
    """A job: the path of a job file, the text of one (a string with a line break or a brace), or a dict.

    job["optimizer.learning_rate"] = 0.1 changes a field, as --set=optimizer.learning_rate=0.1 does. `changes` holds the
    changes; the text stays as it is. A text's or dict's `base` must be an absolute path.
    """

    def __init__(self, source):
        self.changes = {}
        self.path = None
        if isinstance(source, dict):
            self._text = text_of(source)
        elif isinstance(source, str) and re.search(r"[{\n]", source):
            self._text = source
        elif isinstance(source, (str, os.PathLike)):
            self.path = Path(source)
        else:
            raise TypeError(f"a job is a path, a text or a dict, not {type(source).__name__}")

    @classmethod
    def of(cls, job):
        return job if isinstance(job, cls) else cls(job)

    def __setitem__(self, field, value):
        self.changes[field] = value

    def __getitem__(self, field):
        return self.changes[field]

    def __repr__(self):
        return f"Job({str(self.path) if self.path else self._text!r}, changes={self.changes})"

    @property
    def name(self):
        """The stem of the job file, or "job"."""
        return self.path.stem if self.path else "job"

    def text(self):
        """The text of the job, without `changes`."""
        return self.path.read_text(encoding="utf-8") if self.path else self._text

    def check(self):
        """Raises BadJob unless the command accepts the job. Reads only the headers of the data."""
        with JobWords([self]) as words:
            output_of(run_command("plan", ["--brief", *set_words(self.changes), *words.words], words.files),
                      words.bad_job)


def set_words(changes):
    return flag_words({"set": [f"{field}={value_text(value)}" for field, value in changes.items()]})


class JobWords:
    """The words that name jobs on a command line. A job without a file lies in memory, and the command reads it from a
    descriptor."""

    def __init__(self, jobs):
        self.words, self.files, self.names = ["--"], [], {}
        for number, job in enumerate(jobs):
            if job.path:
                self.words.append(os.fspath(job.path))
                continue
            text = job.text()
            if not {"name", "base"} & top_level(text):
                text += '\nname: "job"\n' if len(jobs) == 1 else f'\nname: "job_{number + 1}"\n'
            file = os.memfd_create("tethys-job")
            with os.fdopen(os.dup(file), "wb") as memory:
                memory.write(text.encode())
            self.files.append(file)
            self.words.append(f"/dev/fd/{file}")
            self.names[f"/dev/fd/{file}"] = "job" if len(jobs) == 1 else f"jobs[{number}]"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for file in self.files:
            os.close(file)

    def bad_job(self, message):
        """BadJob for a message of the command, in which a job without a file is "job"."""
        for path, name in self.names.items():
            message = message.replace(path + ":", name + ":")
        return BadJob.of(message)
