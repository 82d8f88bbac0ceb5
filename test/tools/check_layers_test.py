#!/usr/bin/env python3
"""check_layers.py finds every include that a layer may not have: seeded one at a time. Argument: the repository."""

import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(ROOT / "tools"))
sys.dont_write_bytecode = True
import check_layers  # noqa: E402


class CheckLayers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        self.rules = check_layers.Rules((ROOT / "tools" / "layers.txt").read_text())

    def write(self, path, text=""):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def faults(self):
        return check_layers.check(self.root, self.rules)[0]

    def a_file_of(self, layer):
        """A path that belongs to layer, and how an include names it."""
        place = next(path for path, name in self.rules.layers.items() if name == layer)
        path = place + "seeded.h" if place.endswith("/") else place
        for root in ("lib/", "include/"):
            if path.startswith(root):
                return path, path[len(root):]
        return path, path

    def test_every_pair_of_layers_is_judged_as_the_table_says(self):
        layers = sorted(set(self.rules.layers.values()))
        judged = 0
        for source in layers:
            for target in layers:
                if source == target:
                    continue
                with self.subTest(source=source, target=target):
                    allowed = target in self.rules.may.get(source, set())
                    path, name = self.a_file_of(target)
                    self.write(path)
                    own, _ = self.a_file_of(source)
                    self.write(own, f'#pragma once\n#include "{name}"\n')
                    self.assertEqual(len(self.faults()), 0 if allowed else 1)
                    self.write(own)
                    judged += 1
        self.assertGreater(judged, 200)

    def test_the_fault_names_file_line_and_both_layers(self):
        self.write("transports/tcp/tcp.h")
        self.write("transports/shm/shm.cpp", '#include <vector>\n#include "transports/tcp/tcp.h"\n')
        self.assertEqual(self.faults(),
                         ['transports/shm/shm.cpp:2: shm includes "transports/tcp/tcp.h" of tcp, which it may not'])

    def test_a_relative_path_does_not_get_around_it(self):
        self.write("lib/executor/executor.h")
        self.write("lib/schedule/ring.cpp", '#include "../executor/executor.h"\n')
        self.assertEqual(len(self.faults()), 1)

    def test_angle_brackets_and_spaces_do_not_get_around_it(self):
        self.write("lib/base/error.h")
        self.write("tools/info/main.cpp", "  #  include <base/error.h>\n")
        self.assertEqual(len(self.faults()), 1)

    def test_a_schedule_has_no_clock(self):
        self.write("lib/schedule/ring.cpp", "#include <chrono>\n")
        self.assertEqual(self.faults(), ["lib/schedule/ring.cpp:1: schedule never includes <chrono>"])

    def test_a_folder_that_nobody_named_is_a_fault(self):
        self.write("lib/helpers/strings.h")
        self.assertEqual(len(self.faults()), 1)

    def test_a_file_beside_its_includer_is_found(self):
        self.write("bench/perf/table.h")
        self.write("bench/perf/table.cpp", '#include "table.h"\n')
        self.assertEqual(self.faults(), [])

    def test_rules_that_name_no_layer_are_refused(self):
        with self.assertRaises(ValueError):
            check_layers.Rules("layer a : lib/a/\nmay a : b\n")
        with self.assertRaises(ValueError):
            check_layers.Rules("layers a : lib/a/\n")


if __name__ == "__main__":
    unittest.main(verbosity=2)
