#!/usr/bin/env python3
"""Manual pages and completions have every option of --help. Arguments: the programs."""

import os
import re
import shutil
import subprocess
import sys
import unittest

OPTION = re.compile(r"^ {2}(-.*?)(?: {2,}|$)", re.M)  # the first column of an option's line
NAME = re.compile(r"(?<![\w-])(--?[a-zA-Z][\w-]*)")


def printed(program, *arguments):
    return subprocess.run([program, *arguments], check=True, capture_output=True, text=True, timeout=60,
                          env={**os.environ, "HOME": "~"}).stdout


def named(help_text):
    """The options of --help, with their dashes."""
    return {name for column in OPTION.findall(help_text.split("Examples:")[0]) for name in NAME.findall(column)}


class Manual(unittest.TestCase):
    programs = []

    def each(self):
        for program in self.programs:
            name = os.path.basename(program)
            options = named(printed(program, "--help"))
            self.assertIn("--help", options, f"{name}: --help was not understood")
            yield program, name, options

    def test_the_page_has_every_option_and_its_sections(self):
        for program, name, options in self.each():
            with self.subTest(program=name):
                page = printed(program, "--print-man").replace("\\-", "-")
                self.assertTrue(page.startswith(f".TH {name.upper()} 1 "), page[:80])
                for section in ("NAME", "SYNOPSIS", "OPTIONS", "EXAMPLES", "SEE ALSO"):
                    self.assertIn(f'.SH "{section}"', page)
                self.assertEqual({each for each in options if f"\\fB{each}\\fR" not in page}, set(), "not in the page")
                self.assertNotIn(os.path.expanduser("~root"), page, "the folder of whoever built it")

    def test_troff_understands_the_page(self):
        if shutil.which("groff") is None:
            self.skipTest("groff is not installed")
        for program, name, _ in self.each():
            with self.subTest(program=name):
                ended = subprocess.run(["groff", "-man", "-Tascii", "-ww", "-z"], input=printed(program, "--print-man"),
                                       capture_output=True, text=True, timeout=60)
                warnings = [line for line in ended.stderr.splitlines() if "can't break line" not in line
                            and "cannot adjust line" not in line]
                self.assertEqual(warnings, [])

    def test_completions_have_every_option_and_each_shell_understands_its_own(self):
        for program, name, options in self.each():
            for shell in ("bash", "zsh", "fish"):
                with self.subTest(program=name, shell=shell):
                    script = printed(program, "--print-completion", shell)
                    spelled = {each: each for each in options} if shell != "fish" else {
                        each: f"-l {each[2:]}" if each.startswith("--") else f"-s {each[1:]}" for each in options}
                    self.assertEqual({each for each, how in spelled.items() if how not in script}, set())
                    if shutil.which(shell):
                        subprocess.run([shell, "-n"], input=script, check=True, text=True, timeout=60)

    def test_bash_completes_an_option_and_its_values(self):
        launcher = next(each for each in self.programs if os.path.basename(each) == "anellorun")
        asked = """
          complete_for() { COMP_WORDS=(anellorun "$@"); COMP_CWORD=$#; COMPREPLY=(); _anellorun; echo "${COMPREPLY[*]}"; }
          complete_for --time; complete_for --bind-to c; complete_for --timeout ''"""
        ended = subprocess.run(["bash", "-c", printed(launcher, "--print-completion", "bash") + asked], check=True,
                               capture_output=True, text=True, timeout=60)
        self.assertEqual(ended.stdout.splitlines(), ["--timeout", "core", ""])


if __name__ == "__main__":
    Manual.programs = sys.argv[1:]
    unittest.main(argv=sys.argv[:1], verbosity=2)
