#!/usr/bin/env python3
"""anello-info: the table and the JSON say the same, and it is true. Arguments: anellorun, anello-info."""

import json
import os
import subprocess
import sys
import unittest

ANELLORUN, INFO = sys.argv[1:3]
del sys.argv[1:3]


def output(*command, **more):
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60, **more).stdout


class Info(unittest.TestCase):
    def test_json_has_every_section(self):
        report = json.loads(output(INFO, "--json"))
        self.assertEqual(list(report), ["anello", "build", "processors", "memory", "transports", "rdma", "cuda"])
        self.assertRegex(report["anello"]["version"]["value"], r"^\d+\.\d+\.\d+$")
        self.assertEqual(int(report["processors"]["allowed by affinity"]["value"]), len(os.sched_getaffinity(0)))
        self.assertRegex(report["memory"]["total"]["value"], r"^[1-9][\d.]* [KMGT]iB$")
        for name in ("shm", "verbs", "tcp"):
            self.assertIn(report["transports"][name]["value"], ("usable", "not usable"))
            self.assertEqual("remark" in report["transports"][name], report["transports"][name]["value"] != "usable")

    def test_kernels_for_gpus_and_the_driver_are_there_or_the_remark_says_why_not(self):
        report = json.loads(output(INFO, "--json"))
        cuda, built = report["cuda"], report["build"]["cuda"]["value"]
        self.assertEqual(cuda["kernels"]["value"], "found" if built.startswith("yes") else "not found")
        self.assertEqual("remark" in cuda["kernels"], cuda["kernels"]["value"] != "found")
        self.assertEqual(cuda["driver"]["value"] == "none", "remark" in cuda["driver"])
        self.assertEqual(any(name.startswith("device") for name in cuda), cuda["driver"]["value"] != "none")

    def test_ports_of_rdma_adapters_are_there_or_the_remark_says_why_not(self):
        rdma = json.loads(output(INFO, "--json"))["rdma"]
        self.assertNotEqual(rdma, {})
        for entry in rdma.values():
            self.assertEqual("remark" in entry, entry["value"] in ("none", "not usable"))

    def test_the_table_has_every_entry_of_the_json(self):
        table = output(INFO).splitlines()
        for section, entries in json.loads(output(INFO, "--json")).items():
            begin = table.index(section)
            for offset, (name, entry) in enumerate(entries.items(), 1):
                self.assertTrue(table[begin + offset].startswith(f"  {name} "), table[begin + offset])
                if "available" not in name:  # changes from one moment to the next
                    self.assertIn(entry["value"], table[begin + offset])

    def test_it_shows_the_binding_that_a_rank_has(self):
        if len(os.sched_getaffinity(0)) < 2:
            self.skipTest("needs two processors")
        report = json.loads(output(ANELLORUN, "-np", "1", "--bind-to", "core", INFO, "--json"))
        self.assertIn("remark", report["processors"]["allowed by affinity"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
