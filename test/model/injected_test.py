"""The model test must fail on a bug: here one that is put between the program and the library, so that no other build is
needed, must come out with a small program and a command that repeats it."""

import os
import re
import shlex
import subprocess
import sys
import unittest

MODEL_TEST = sys.argv.pop(1)


def run(*words, environment=None):
    return subprocess.run([MODEL_TEST, *words], capture_output=True, text=True, timeout=150, check=False,
                          env={**os.environ, **(environment or {})})


class Injected(unittest.TestCase):
    def found(self, bug, transport, most_steps):
        ended = run("--transport", transport, "--bug", bug, "--programs", "300", "--shrink", "45", "--timeout", "5000")
        self.assertEqual(ended.returncode, 1, ended.stdout + ended.stderr)
        smallest = ended.stdout.split("smallest found")[1]
        steps = re.findall(r"^  step ", smallest, re.M)
        self.assertTrue(1 <= len(steps) <= most_steps, smallest)
        # The command is of use to somebody who has nothing but it.
        words = shlex.split(re.search(r"^repeat: (.*)$", smallest, re.M)[1])
        settings = dict(word.split("=", 1) for word in words if word.startswith("ANELLO_"))
        again = run(*[word for word in words if not word.startswith("ANELLO_")][1:], environment=settings)
        self.assertEqual(again.returncode, 1, again.stdout)

    def test_an_exscan_that_includes_its_own_rank_is_found(self):
        self.found("exscan-has-self", "inproc", 2)

    def test_a_count_of_one_for_an_empty_message_is_found(self):
        self.found("empty-has-one", "shm", 2)

    def test_a_split_that_ignores_keys_is_found(self):
        self.found("keys-ignored", "inproc", 2)

    def test_a_last_element_left_out_of_large_vectors_is_found(self):
        self.found("short-by-one", "inproc", 2)

    def test_a_program_has_one_text_whoever_asks(self):
        texts = {run("--show", "--ranks", "5", "--program", "11").stdout for _ in range(2)}
        self.assertEqual(len(texts), 1)
        self.assertIn("step 0", texts.pop())


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
