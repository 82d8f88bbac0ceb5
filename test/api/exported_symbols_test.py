#!/usr/bin/env python3
"""libanello.so exports exactly what the public headers declare, and what the Debian package has promised since which
version. Arguments: the library, the package's list of symbols, the headers."""

import pathlib
import re
import subprocess
import sys
import unittest

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
# ANELLO_API .. name( for a function, ANELLO_API extern .. name; for an object.
DECLARED = re.compile(r"^\s*ANELLO_API\b[^;(]*?\b(anello_\w+)\s*[(;]", re.M)
LINKER = {"_init", "_fini", "_edata", "_end", "__bss_start"}


def declared(text):
    return set(DECLARED.findall(COMMENT.sub("", text)))


def exported(listing):
    """Names in the output of nm -D --defined-only, without symbol versions and the version's own symbol (A)."""
    rows = (line.split() for line in listing.splitlines())
    return {row[2].split("@")[0] for row in rows if len(row) == 3 and row[1] != "A"} - LINKER


class ExportedSymbols(unittest.TestCase):
    library = None
    headers = []
    symbols = None

    def test_the_library_exports_exactly_the_headers(self):
        promised = set().union(*(declared(pathlib.Path(header).read_text()) for header in self.headers))
        listing = subprocess.run(["nm", "-D", "--defined-only", self.library], check=True, capture_output=True,
                                 text=True)
        found = exported(listing.stdout)
        self.assertGreater(len(promised), 40, "the headers were not understood")
        self.assertEqual(promised - found, set(), "declared, but not exported")
        self.assertEqual(found - promised, set(), "exported, but not declared")

    def test_a_symbol_that_was_once_promised_is_still_there(self):
        lines = pathlib.Path(self.symbols).read_text().splitlines()
        self.assertRegex(lines[0], r"^libanello\.so\.0 libanello0 ")
        kept = {}
        for line in lines[1:]:
            name, version, since = re.fullmatch(r" (\w+)@(ANELLO_\d+) (\S+)", line).groups()
            kept[name] = (version, since)
        listing = subprocess.run(["nm", "-D", "--defined-only", self.library], check=True, capture_output=True,
                                 text=True)
        found = exported(listing.stdout)
        self.assertEqual(set(kept) - found - {"ANELLO_0"}, set(), "programs that were linked with it no longer start")
        self.assertEqual(found - set(kept), set(), "new: the list must say since which version")

    def test_it_needs_nothing_but_the_runtime_of_c_and_cpp(self):
        listing = subprocess.run(["readelf", "-d", self.library], check=True, capture_output=True, text=True).stdout
        needed = set(re.findall(r"\(NEEDED\).*\[([\w+-]+)\.so", listing))
        self.assertIn("libc", needed)
        runtime = {"libc", "libm", "libstdc++", "libgcc_s", "ld-linux-x86-64", "libpthread", "libdl", "librt",
                   "libasan", "libubsan", "libtsan"}
        self.assertEqual(needed - runtime, set(), "a user would have to ship it")

    def test_a_declaration_over_two_lines_and_an_object_are_understood(self):
        text = ("/* ANELLO_API int anello_not_this(void); */\nANELLO_API anello_result_t anello_one(const void *a,\n"
                "   int b);\nANELLO_API extern const char anello_two;\nANELLO_API const char *anello_three(void);\n")
        self.assertEqual(declared(text), {"anello_one", "anello_two", "anello_three"})

    def test_a_leaked_symbol_is_seen(self):
        listing = "0000 T anello_one@@ANELLO_0\n0000 A ANELLO_0\n0001 W _ZN6anello4leakEv\n0002 B __bss_start\n"
        self.assertEqual(exported(listing), {"anello_one", "_ZN6anello4leakEv"})


if __name__ == "__main__":
    ExportedSymbols.library, ExportedSymbols.symbols, *ExportedSymbols.headers = sys.argv[1:]
    unittest.main(argv=sys.argv[:1], verbosity=2)
