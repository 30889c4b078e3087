#!/usr/bin/env python3
"""Completes command lines in real shells, and prints all manual pages."""
import os
import re
import shutil
import subprocess
import tempfile
import unittest

from tethys_run import PATIENCE, TETHYS

# bash calls a completion function with the words of the line, and the line up to the cursor. This breaks a line at
# blanks and equal signs, as bash does.
ASK_BASH = r"""
source <(tethys completion bash)
while IFS= read -r COMP_LINE; do
  COMP_POINT=${#COMP_LINE} COMP_WORDS=() COMPREPLY=()
  for word in ${COMP_LINE//=/ = }; do COMP_WORDS+=("$word"); done
  [[ $COMP_LINE != *' ' ]] || COMP_WORDS+=("")
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  _tethys tethys
  echo "${COMPREPLY[*]}"
done
"""


def output(*words, **options):
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f"{words}: {done.stderr}")
    return done.stdout + done.stderr


def help_of(*verb):
    return output(TETHYS, *verb, "--help")


def verbs():
    return re.findall(r"(?m)^  (\w+)  ", help_of())


class CompletionTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.environment = {**os.environ, "PATH": f"{os.path.dirname(os.path.abspath(TETHYS))}:{os.environ['PATH']}"}

    def test_scripts_are_sound_and_short(self):
        for shell in ("bash", "zsh", "fish"):
            script = output(TETHYS, "completion", shell)
            self.assertLessEqual(script.count("\n"), 16, shell)
            if shutil.which(shell):
                output(shell, "-n", input=script) if shell == "bash" else self.check_file(shell, script)

    def check_file(self, shell, script):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(script)
            file.flush()
            output(shell, "-n", file.name)

    def test_bash_completes_what_the_table_of_verbs_says(self):
        lines = {"tethys tra": "train",
                 "tethys train --re": "--resume",
                 "tethys train --from=k": "kubernetes",
                 "tethys train --set=optimizer.adag": "optimizer.adagrad.",
                 "tethys train --set=optimizer.learning_r": "optimizer.learning_rate=",
                 "tethys train --set=strategy=m": "mirrored",
                 "tethys compare --vary=strategy=local,p": "local,parameter_server",
                 "tethys runs show sec": "second",
                 "tethys watch runs/": "runs/first runs/second",
                 "tethys manifest k": "kubernetes",
                 "tethys help wa": "watch",
                 "tethys hosts ": "check",
                 "tethys train ": ""}
        with tempfile.TemporaryDirectory(prefix="tethys-complete-") as folder:
            for run in ("first", "second"):
                os.makedirs(f"{folder}/runs/{run}")
                with open(f"{folder}/runs/{run}/job.textproto", "w", encoding="utf-8"):
                    pass
            os.mkdir(f"{folder}/runs/no-run")
            answers = output("bash", "--norc", "-c", ASK_BASH, input="\n".join(lines) + "\n", cwd=folder,
                             env=self.environment).split("\n")
        self.assertEqual(dict(zip(lines, answers)), lines)

    def test_every_verb_and_flag_is_completed_and_has_its_manual_page(self):
        names = verbs()
        self.assertGreater(len(names), 15)
        self.assertEqual(output(TETHYS, "__complete", "1", "tethys").split(), names)
        pages = {"tethys": output(TETHYS, "help", "--man")}
        for verb in names:
            flags = set(re.findall(r"(?m)^  (--\w+)", help_of(verb)))
            offered = {word.rstrip("=") for word in output(TETHYS, "__complete", "2", "tethys", verb, "--").split()}
            self.assertEqual(offered, flags, verb)
            pages[verb] = output(TETHYS, "help", "--man", verb)
            for flag in flags:
                self.assertIn(f"\n.B {flag.replace('-', chr(92) + '-')}", pages[verb])
            self.assertIn(f"\n.B {verb}\n", pages["tethys"])
        if shutil.which("man"):
            self.check_pages(pages)

    def check_pages(self, pages):
        with tempfile.TemporaryDirectory(prefix="tethys-man-") as folder:
            for name, page in pages.items():
                with open(f"{folder}/{name}.1", "w", encoding="utf-8") as file:
                    file.write(page)
            shown = output("man", "--warnings", "--local-file", *(f"{folder}/{name}.1" for name in pages),
                           env={**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "80", "MANPAGER": "cat"})
        self.assertNotIn("warning", shown)
        self.assertIn("tethys-train", shown)

    def test_unknown_shell_and_verb_are_refused(self):
        for words, message in ((["completion", "csh"], "write one of bash|zsh|fish"),
                               (["help", "--man", "trian"], "did you mean train?")):
            done = subprocess.run([TETHYS, *words], capture_output=True, text=True, timeout=PATIENCE, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertIn(message, done.stderr)


if __name__ == "__main__":
    unittest.main()
