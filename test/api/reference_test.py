#!/usr/bin/env python3
"""The pages of the C API are what tools/api_reference.py makes of the headers, and leave nothing of them out."""

import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import api_reference  # noqa: E402

REFERENCES = api_reference.REFERENCES
HEADER = REFERENCES[0].header()


def bare(reference):
    return re.sub(r"/\*.*?\*/", "", reference.header(), flags=re.S)


class Reference(unittest.TestCase):
    def test_every_public_header_has_a_page(self):
        headers = {path.name for path in (ROOT / "include/anello").glob("*.h")}
        self.assertEqual({reference.name for reference in REFERENCES}, headers)

    def test_the_pages_are_up_to_date(self):
        for reference in REFERENCES:
            self.assertEqual(api_reference.page(reference), reference.page.read_text(), "run tools/api_reference.py")

    def test_every_function_has_its_synopsis_and_a_description(self):
        for reference, least in zip(REFERENCES, (100, 15, 2)):
            page = reference.page.read_text()
            declarations = re.findall(r"^ANELLO_API\s+([^;]*;)", bare(reference), re.M)
            self.assertGreaterEqual(len(declarations), least)
            for declaration in declarations:
                with self.subTest(declaration):
                    self.assertIn(declaration, page)
            self.assertEqual(api_reference.undescribed(reference.header()), [])

    def test_every_enumerator_and_field_is_there(self):
        for reference, least in zip(REFERENCES, (10, 5, 1)):
            bodies = re.findall(r"^typedef (?:ANELLO_ENUM\(\w+\)|struct \w+) \{\n(.*?)\n\} (\w+);", bare(reference), re.M | re.S)
            self.assertGreaterEqual(len(bodies), least)
            rows = set(re.findall(r"^\| `(.*?)` \|", reference.page.read_text(), re.M))
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
