#!/usr/bin/env python3
"""docs/api.md is what tools/api_reference.py makes of the header, and leaves nothing of it out."""

import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import api_reference  # noqa: E402

HEADER = api_reference.HEADER.read_text()
BARE = re.sub(r"/\*.*?\*/", "", HEADER, flags=re.S)
PAGE = api_reference.PAGE.read_text()


class Reference(unittest.TestCase):
    def test_the_page_is_up_to_date(self):
        self.assertEqual(api_reference.page(HEADER), PAGE, "run tools/api_reference.py")

    def test_every_function_has_its_synopsis_and_a_description(self):
        declarations = re.findall(r"^ANELLO_API\s+([^;]*;)", BARE, re.M)
        self.assertGreater(len(declarations), 100)
        for declaration in declarations:
            with self.subTest(declaration):
                self.assertIn(declaration, PAGE)
        self.assertEqual(api_reference.undescribed(HEADER), [])

    def test_every_enumerator_and_field_is_there(self):
        bodies = re.findall(r"^typedef (?:ANELLO_ENUM\(\w+\)|struct \w+) \{\n(.*?)\n\} (\w+);", BARE, re.M | re.S)
        self.assertGreater(len(bodies), 10)
        rows = set(re.findall(r"^\| `(.*?)` \|", PAGE, re.M))
        for body, name in bodies:
            entries = [" ".join(entry.split()) for entry in re.split(";" if ";" in body else ",", body)]
            for entry in filter(None, entries):
                with self.subTest(type=name, entry=entry):
                    self.assertIn(entry, rows)

    def test_a_function_without_a_comment_is_found(self):
        self.assertEqual(api_reference.undescribed(HEADER.replace(
            "/* ---- About the library", "ANELLO_API int anello_unsaid(void);\n\n/* ---- About the library")), ["anello_unsaid"])

    def test_a_comment_is_of_what_stands_under_it(self):
        items = list(api_reference.items("/* One. */\nANELLO_API int anello_a(void);\n/* Two,\n *   indented. */\n"
                                         "ANELLO_API int anello_b(void);\nANELLO_API int anello_c(void);\n\n/* Alone. */\n"))
        self.assertEqual([(item.comment, item.names()) for item in items],
                         [("One.", ["anello_a"]), ("Two,\n  indented.", ["anello_b", "anello_c"]), ("Alone.", [])])
        self.assertEqual(api_reference.fields("typedef struct a {\n int x; /* one,\n two */\n void (*f)(int, int);\n} a;"),
                         [("x", "int x", "one, two"), ("f", "void (*f)(int, int)", "")])


if __name__ == "__main__":
    unittest.main(verbosity=2)
