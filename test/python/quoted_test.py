#!/usr/bin/env python3
"""The texts under "Error messages" in the pages on Python are those of the code: quoted_test.py REPOSITORY

A text is quoted with ".." for what differs from case to case. Each piece between must stand in one string of the sources.
"""

import pathlib
import re
import sys
import unittest

REPOSITORY = pathlib.Path(sys.argv[1]).resolve()
PAGES = ("pytorch.md", "apex.md", "horovod.md")
SOURCES = ("python/*/**/*.py", "lib/**/*.cpp", "lib/**/*.h")
ADJACENT = re.compile(r'"\s*\n?\s*f?"')  # literals that are one string
VARIABLE = re.compile(r"\{[^{}]*\}")      # of an f-string


def sources():
    texts = []
    for pattern in SOURCES:
        for path in sorted(REPOSITORY.glob(pattern)):
            text = path.read_text()
            texts.append(VARIABLE.sub("\0", text) if path.suffix == ".py" else text)
    return "\n".join(ADJACENT.sub("", text).replace('\\"', '"') for text in texts)


def quoted(page):
    page = (REPOSITORY / "docs" / page).read_text().split("## Error messages", 1)[1].split("\n## ", 1)[0]
    return [re.findall(r"`([^`]+)`", line.split("|")[1]) for line in page.split("\n") if line.startswith("| `")]


class Quoted(unittest.TestCase):
    def test_every_text_on_the_page_stands_in_the_code(self):
        code = sources()
        for page in PAGES:
            rows = quoted(page)
            self.assertGreater(len(rows), 10)
            for text in (text for row in rows for text in row):
                for piece in filter(None, (piece.strip() for piece in text.split(".."))):
                    with self.subTest(page=page, text=text, piece=piece):
                        self.assertTrue(piece in code)


if __name__ == "__main__":
    sys.argv[1:] = []
    unittest.main(verbosity=2)
