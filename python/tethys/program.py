"""Finds and runs the command `tethys`.

The command runs in a session of its own, so that a terminal's Ctrl-C reaches Python alone. Python then asks the command
to end, and the command saves a checkpoint. If Python dies, the kernel asks the command in its place (--parent).
"""
import os
import re
import selectors
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from tethys.errors import BadJob

HERE = Path(__file__).resolve().parent


def program():
    """The path of the command: the one that the environment variable TETHYS_PROGRAM names, that of the wheel, that of
    the source tree's build, or the one on PATH."""
    if os.environ.get("TETHYS_PROGRAM"):
        return Path(os.environ["TETHYS_PROGRAM"]).absolute()
    for path in (HERE / "_bundle/tethys", HERE.parent.parent / "build/release/deploy/tethys"):
        if path.exists():
            return path
    if shutil.which("tethys"):
        return Path(shutil.which("tethys")).absolute()
    raise FileNotFoundError("there is no command tethys: install the wheel, or build the command "
                            "(deploy/quickstart.sh) and name it by the environment variable TETHYS_PROGRAM")


def main():
    """The command `tethys` that pip installs: becomes the program."""
    path = str(program())
    os.execv(path, [path, *sys.argv[1:]])


def flag_words(flags):
    """The words for flags given by name: True gives --NAME, a list a word for each element, None and False nothing."""
    words = []
    for name, value in flags.items():
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if one is True:
                words.append(f"--{name}")
            elif one is not None and one is not False:
                words.append(f"--{name}={one}")
    return words


class Ended:
    """How the command ended. `interruption`: the exception because of which Python asked it to end, or None."""

    def __init__(self, verb, status, output, errors, interruption):
        self.verb, self.status, self.output, self.errors = verb, status, output, errors
        self.interruption = interruption

    def message(self):
        """What the command said of its error."""
        text = self.errors.strip()
        begin = re.search(rf"^tethys(?: {self.verb})?: ", text, re.MULTILINE)
        return text[begin.end():] if begin else text or f"tethys {self.verb} ended with status {self.status}"


class Lines:
    """Splits the output of a command into lines as it comes."""

    def __init__(self):
        self.text, self.rest = "", b""

    def take(self, piece):
        """The lines that `piece` completes."""
        *lines, self.rest = (self.rest + piece).split(b"\n")
        lines = [line.decode(errors="replace") for line in lines]
        self.text += "".join(line + "\n" for line in lines)
        return lines


def run_command(verb, words, files=(), on_line=None, on_pause=None):
    """Runs `tethys VERB WORDS...` to its end; returns an Ended.

    files: descriptors that the command inherits. on_line receives each line of standard output; on_pause is called ten
    times a second and at the end. After an exception in either, or a KeyboardInterrupt, the command is asked to end,
    and neither is called again. Another KeyboardInterrupt asks again, and the command ends at once.
    """
    interruption = None
    child = subprocess.Popen([str(program()), f"--parent={os.getpid()}", verb, *words], stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=files, start_new_session=True)
    output, errors = Lines(), Lines()
    with child, selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ, output)
        selector.register(child.stderr, selectors.EVENT_READ, errors)
        while child.returncode is None:
            try:
                for key, _ in selector.select(timeout=0.1):
                    piece = os.read(key.fd, 1 << 16)
                    if not piece:
                        selector.unregister(key.fileobj)
                    for line in key.data.take(piece or b"\n" * bool(key.data.rest)):
                        if on_line and key.data is output and interruption is None:
                            on_line(line)
                if not selector.get_map():
                    child.wait()
                if on_pause and interruption is None:
                    on_pause()
            except BaseException as error:  # pylint: disable=broad-except
                if interruption is None or isinstance(error, KeyboardInterrupt):
                    child.send_signal(signal.SIGTERM)
                interruption = interruption or error
    return Ended(verb, child.returncode, output.text, errors.text, interruption)


def output_of(ended, bad_job=BadJob.of):
    """The output of a command that makes no run. Raises the error of `bad_job` if the command refused (exit status 2),
    and RuntimeError if it failed."""
    if ended.interruption is not None:
        raise ended.interruption
    if ended.status == 2:
        raise bad_job(ended.message())
    if ended.status != 0:
        raise RuntimeError(ended.message())
    return ended.output
