"""Runs the commands of docs/guide/ as they stand, and checks the links and lengths of all pages.

    guide_test.py TETHYS           runs every block of commands that a page does not mark
    guide_test.py TETHYS --long    runs the blocks marked as long, too, and prints how long each page took

A page's ```sh blocks run in the page's order, in an empty folder that has the repository's `examples` and
`build/release/deploy`. A block whose first line is "# In a second terminal" runs while the block before it still runs
in the first one, which gets Ctrl-C afterwards if it has not ended by itself.

A line of text directly before a block can mark it, for readers and for this test:

    *Takes ...*    only --long runs the block
    *Needs ...*    nothing here runs the block; the line says what it needs

The flags of every block must exist, marked or not.
"""
import contextlib
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from urllib.parse import unquote

signal.signal(signal.SIGINT, signal.default_int_handler)

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TETHYS = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else (
    f"{SOURCE}/build/release/deploy/tethys")
LONG = "--long" in sys.argv
if LONG:
    sys.argv.remove("--long")
# Seconds after which a block counts as hanging.
PATIENCE = 600 if LONG else 300

GUIDE = sorted(glob.glob(f"{SOURCE}/docs/guide/*.md"))


class Block:
    def __init__(self, commands, line, mark):
        self.commands, self.line, self.mark = commands, line, mark
        self.second_terminal = commands.startswith("# In a second terminal")

    def runs(self):
        return self.mark == "" or LONG and self.mark == "Takes"


def read(path):
    with open(path, encoding="utf-8", errors="replace") as text:
        return text.read()


def blocks_of(page):
    """The ```sh blocks of a page."""
    lines = read(page).split("\n")
    blocks, begin = [], None
    for number, line in enumerate(lines):
        if begin is None and line == "```sh":
            begin = number
        elif begin is not None and line == "```":
            before = [text for text in lines[:begin] if text.strip()]
            mark = re.match(r"\*(Takes|Needs) .*\*$", before[-1]) if before else None
            blocks.append(Block("\n".join(lines[begin + 1:number]), begin + 1, mark.group(1) if mark else ""))
            begin = None
    return blocks


class Folder:
    """An empty folder in which a reader has cloned and built the repository."""

    def __init__(self):
        self.path = tempfile.mkdtemp(prefix="tethys_guide_")
        os.symlink(f"{SOURCE}/examples", f"{self.path}/examples")
        os.makedirs(f"{self.path}/build/release")
        os.symlink(os.path.dirname(TETHYS), f"{self.path}/build/release/deploy")
        self.environment = {**os.environ, "PATH": f"{os.path.dirname(TETHYS)}:{os.environ['PATH']}"}

    def start(self, block, output):
        return subprocess.Popen(["bash", "-euo", "pipefail", "-c", block.commands], cwd=self.path, stdin=subprocess.DEVNULL,
                                stdout=output, stderr=subprocess.STDOUT, env=self.environment, start_new_session=True)


@contextlib.contextmanager
def folder():
    made = Folder()
    try:
        yield made
    finally:
        shutil.rmtree(made.path)


class GuideTest(unittest.TestCase):
    def run_page(self, page):
        blocks = [block for block in blocks_of(page) if block.runs()]
        with folder() as here:
            for block, after in zip(blocks, blocks[1:] + [None]):
                if block.second_terminal:
                    continue
                with tempfile.NamedTemporaryFile("w") as output:
                    process = here.start(block, output)
                    try:
                        if after is not None and after.second_terminal:
                            self.run_second_terminal(here, page, process, output, after)
                        else:
                            status = process.wait(PATIENCE)
                            self.assertEqual(status, 0, f"{page}:{block.line}:\n{read(output.name)}")
                    finally:
                        with contextlib.suppress(ProcessLookupError):
                            os.killpg(process.pid, signal.SIGKILL)
                        process.wait()

    def run_second_terminal(self, here, page, first, output, block):
        """Runs `block` once the command of the first terminal has printed an epoch or an address."""
        deadline = time.monotonic() + PATIENCE
        while not re.search(r"^epoch +\d+/|http://", read(output.name), re.MULTILINE):
            self.assertIsNone(first.poll(), f"{page}: the first terminal's command ended:\n{read(output.name)}")
            self.assertLess(time.monotonic(), deadline, read(output.name))
            time.sleep(0.05)
        with tempfile.NamedTemporaryFile("w") as second_output:
            second = here.start(block, second_output)
            status = second.wait(PATIENCE)
            self.assertEqual(status, 0, f"{page}:{block.line}:\n{read(second_output.name)}\nfirst terminal:\n"
                                        f"{read(output.name)}")
        if first.poll() is None:
            os.killpg(first.pid, signal.SIGINT)
        first.wait(PATIENCE)

    def test_flags_of_all_commands_exist(self):
        help_texts = {}
        for page in GUIDE + [f"{SOURCE}/README.md", f"{SOURCE}/deploy/README.md", *glob.glob(f"{SOURCE}/docs/*.md")]:
            for block in blocks_of(page):
                commands = re.sub(r"\\\n", " ", block.commands)
                for verb, rest in re.findall(r"\btethys ([a-z]+)\b([^\n|;&#]*)", commands):
                    if verb not in help_texts:
                        help_texts[verb] = subprocess.run([TETHYS, verb, "--help"], capture_output=True, text=True,
                                                          check=True).stdout
                    for flag in re.findall(r"(?<=\s)--[a-z_]+", rest):
                        self.assertIn(flag, help_texts[verb], f"{page}:{block.line}: tethys {verb}")

    def test_each_page_names_its_own_run_directories(self):
        """A reader who follows the pages one after another must not meet a directory of an earlier page."""
        seen = {}
        for page in GUIDE:
            for block in blocks_of(page):
                for directory in re.findall(r"^tethys (?!.*--resume).*--run_dir=(\S+)", block.commands, re.MULTILINE):
                    self.assertEqual(seen.setdefault(directory, page), page, directory)


def page_test(page):
    return lambda self: self.run_page(page)


for guide_page in GUIDE:
    name = re.sub(r"\W", "_", os.path.basename(guide_page)[:-len(".md")])
    if blocks_of(guide_page):
        setattr(GuideTest, f"test_page_{name}", page_test(guide_page))


def headings(page):
    """The anchors that GitHub gives to a page's headings."""
    text = re.sub(r"^```.*?^```", "", read(page), flags=re.MULTILINE | re.DOTALL)
    found = set()
    for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).strip().lower()
        found.add(re.sub(r"[^\w\- ]", "", title).replace(" ", "-"))
    return found


class PagesTest(unittest.TestCase):
    PAGES = [f"{SOURCE}/README.md", f"{SOURCE}/CONTRIBUTING.md", f"{SOURCE}/CHANGELOG.md", f"{SOURCE}/deploy/README.md",
             *glob.glob(f"{SOURCE}/docs/**/*.md", recursive=True),
             *glob.glob(f"{SOURCE}/examples/**/*.md", recursive=True)]

    def test_links_lead_somewhere(self):
        for page in self.PAGES:
            text = re.sub(r"^```.*?^```", "", read(page), flags=re.MULTILINE | re.DOTALL)
            for target in re.findall(r"\]\(([^)\s]+)\)", text):
                if re.match(r"[a-z]+:", target):
                    continue
                path, _, anchor = unquote(target).partition("#")
                file = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
                self.assertTrue(os.path.exists(file), f"{page}: {target}: there is no such file")
                if anchor:
                    self.assertIn(anchor, headings(file), f"{page}: {target}: there is no such heading")

    def test_files_that_pages_name_exist(self):
        named = re.compile(r"`((?:proto|runtime|collectives|ps|workers|deploy|tests|examples|docs)/[\w/.-]+\."
                           r"(?:h|cc|cu|proto|py|sh|md|yaml|textproto))`")
        for page in self.PAGES:
            if not page.endswith("CHANGELOG.md"):
                for file in named.findall(read(page)):
                    self.assertTrue(os.path.exists(f"{SOURCE}/{file}"), f"{page}: there is no {file}")

    def test_guide_lists_all_its_pages(self):
        index = read(f"{SOURCE}/docs/guide/README.md")
        for page in GUIDE:
            if not page.endswith("README.md"):
                self.assertIn(f"({os.path.basename(page)})", index)

    def test_design_is_short(self):
        self.assertLessEqual(read(f"{SOURCE}/docs/design.md").count("\n"), 300)

    def test_readme_is_short(self):
        text = read(f"{SOURCE}/README.md")
        self.assertLessEqual(len(text.split()), 1300)
        for page in [f"{SOURCE}/README.md", *GUIDE]:
            for number, line in enumerate(read(page).split("\n"), 1):
                self.assertLessEqual(len(line), 400, f"{page}:{number}")


if __name__ == "__main__":
    unittest.main()
