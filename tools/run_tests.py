#!/usr/bin/env python3
"""Runs the tests of a build folder and adds up their cases.

Meson counts programs; this counts what is inside them. Three kinds of program are understood:
  Catch2           run with its XML reporter; a case that says "SKIPPED: reason" (in a message or on its output) is
                   skipped
  Python unittest  its verbose output, read for its own skips
  any other        one case; exit code 77 skips it, and its last line is the reason
A program that fails although all its cases passed (a sanitizer's report, a leak) counts as one more failed case.
"""

import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree

SKIP = re.compile(r"SKIPPED: *(.+)")
EXIT_SKIPPED = 77
SANITIZER_OPTIONS = {
    "ASAN_OPTIONS": "halt_on_error=1:detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
}
SLOWER = {"none": 1, "thread": 6}  # any other sanitizer: 3


@dataclasses.dataclass
class Outcome:
    name: str
    passed: int = 0
    failed: list = dataclasses.field(default_factory=list)   # what failed
    skipped: list = dataclasses.field(default_factory=list)  # (case, reason)
    output: str = ""
    seconds: float = 0


def ending(code):
    return f"signal {-code} ({signal.strsignal(-code)})" if code < 0 else f"exit code {code}"


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no reason given"


# ---- Catch2 -----------------------------------------------------------------------------------------------------

def is_catch2(path):
    """Whether an executable has Catch2's main, of version 2 or 3, be Catch2 inside or a shared library."""
    try:
        with path.open("rb") as file:
            return file.read(4) == b"\x7fELF" and b"N5Catch7Session" in path.read_bytes()
    except OSError:
        return False


def catch2_cases(report):
    """(element, complete) of each case in a report, which may be incomplete if the program was killed."""
    parser = ElementTree.XMLPullParser(["start", "end"])
    open_case, cases = None, []
    try:
        parser.feed(report)
        for event, element in parser.read_events():
            if element.tag != "TestCase":
                continue
            open_case = element if event == "start" else None
            if event == "end":
                cases.append((element, True))
    except ElementTree.ParseError:
        pass
    return cases + ([(open_case, False)] if open_case is not None else [])


def catch2_failures(case):
    """The failed expressions of a case, for people."""
    lines = []
    for element in case.iter():
        if element.tag in ("Exception", "FatalErrorCondition", "Failure") or (
                element.tag == "Expression" and element.get("success") == "false"):
            place = f"{element.get('filename', '')}:{element.get('line', '')}"
            values = [(element.findtext(tag) or "").strip() for tag in ("Original", "Expanded")]
            text = " ".join(values).strip() or element.text or ""
            lines.append(f"  {place}: {element.tag}: {' '.join(text.split())}")
        elif element.tag in ("Info", "Warning", "StdOut", "StdErr") and (element.text or "").strip():
            lines.append(f"  {element.tag}: {element.text.strip()}")
    return lines


def judge_catch2(outcome, code, report, output):
    loose = SKIP.findall(output)  # printed without Catch2, so it belongs to some case of this program
    details = []
    for case, complete in catch2_cases(report):
        name = case.get("name", "?").strip()
        result = case.find("OverallResult")
        reasons = [found[1] for text in case.itertext() for found in [SKIP.search(text)] if found]
        if not complete or result is None:
            outcome.failed.append(f"{name}: the program ended here")
        elif result.get("success") != "true":
            outcome.failed.append(name)
            details += [name, *catch2_failures(case)]
        elif reasons:
            outcome.skipped.append((name, reasons[0].strip()))
        else:
            outcome.passed += 1
    for reason in loose:
        if outcome.passed > 0:
            outcome.passed -= 1
            outcome.skipped.append(("a case", reason.strip()))
    if code != 0 and not outcome.failed:
        outcome.failed.append(f"the program ended with {ending(code)}")
    if outcome.passed + len(outcome.failed) + len(outcome.skipped) == 0:
        outcome.failed.append("no case was run")
    outcome.output = "\n".join(details) + ("\n" if details else "") + output


# ---- Python's unittest --------------------------------------------------------------------------------------------

RAN = re.compile(r"^Ran (\d+) tests? in ", re.M)


def judge_unittest(outcome, code, output):
    """False if the output is not that of unittest."""
    ran = RAN.search(output)
    if not ran:
        return False
    failed = set(re.findall(r"^(?:FAIL|ERROR): (\S+)", output, re.M))
    # For a test with name and reason on one line; subtests and whole classes have the same form.
    skips = re.findall(r"^(?: *)(\w+) \([^\n]*\.\.\. skipped ['\"](.*)['\"]$", output, re.M)
    outcome.skipped += [(name, reason) for name, reason in skips if name not in failed]
    outcome.failed += sorted(failed)
    outcome.passed = max(int(ran[1]) - len(failed) - len(outcome.skipped), 0)
    if code != 0 and not failed:
        outcome.failed.append(f"the program ended with {ending(code)}")
    if int(ran[1]) == 0:
        outcome.failed.append("no test was run")
    return True


# ---- Running ------------------------------------------------------------------------------------------------------

def judge_program(outcome, code, output):
    if code == EXIT_SKIPPED:
        outcome.skipped.append((outcome.name, last_line(output)))
    elif code != 0:
        outcome.failed.append(f"the program ended with {ending(code)}")
    else:
        outcome.passed = 1


# Do not test with a table that a person has tuned for this machine.
NO_TABLE = {"ANELLO_TUNING": "none"}


def run(test, folder, prefix, environment, slower):
    outcome = Outcome(test["name"])
    place = pathlib.Path(test["workdir"] or folder).resolve()  # Meson's paths are relative to it
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        report = pathlib.Path(scratch) / "report.xml"
        catch2 = is_catch2(place / test["cmd"][0])
        command = prefix + test["cmd"] + (["--reporter", "xml", "--out", str(report)] if catch2 else [])
        # A separate session, so that processes that it leaves behind can be ended without touching others.
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                       cwd=place, env={**os.environ, **NO_TABLE, **environment, **test["env"]},
                                       start_new_session=True)
            limit = test["timeout"] * slower if test["timeout"] > 0 else None
            try:
                code = process.wait(limit)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                code = None
            output.seek(0)
            outcome.output = output.read().decode(errors="replace")
        text = report.read_text(errors="replace") if report.exists() else ""
    if code is None:
        for case, complete in catch2_cases(text):
            result = case.find("OverallResult")
            if complete and result is not None and result.get("success") == "true":
                outcome.passed += 1
        outcome.failed.append(f"not finished after {limit:.0f} s: {outcome.name}")
    elif catch2 and code != EXIT_SKIPPED:
        judge_catch2(outcome, code, text, outcome.output)
    elif not judge_unittest(outcome, code, outcome.output):
        judge_program(outcome, code, outcome.output)
    outcome.seconds = time.monotonic() - begin
    return outcome


def introspect(folder, what):
    text = subprocess.run(["meson", "introspect", what, str(folder)], check=True, capture_output=True, text=True).stdout
    return json.loads(text)


def selection(tests, words, nightly):
    """The tests to run, and the names of those that only run with --nightly."""
    chosen, late = [], []
    for test in tests:
        suites = {suite.split(":")[-1] for suite in test["suite"]}
        if words and not any(word in test["name"] or word in suites for word in words):
            continue
        (late if "nightly" in suites and not nightly else chosen).append(test)
    # Tests that may take long come first, and those that need the whole machine come last.
    return sorted(chosen, key=lambda test: (not test["is_parallel"], -test["timeout"])), [test["name"] for test in late]


def run_all(tests, *arguments):
    """Yields outcomes as they arrive. Two tests run at a time, because each starts several processes."""
    with concurrent.futures.ThreadPoolExecutor(min(2, len(os.sched_getaffinity(0)))) as pool:
        together = [pool.submit(run, test, *arguments) for test in tests if test["is_parallel"]]
        for future in concurrent.futures.as_completed(together):
            yield future.result()
    for test in tests:
        if not test["is_parallel"]:
            yield run(test, *arguments)


def show(outcome, number, count, width):
    counts = [f"{outcome.passed} passed"]
    counts += [f"{len(outcome.failed)} failed"] if outcome.failed else []
    counts += [f"{len(outcome.skipped)} skipped"] if outcome.skipped else []
    place = f"[{number:{len(str(count))}}/{count}]"
    print(f"{place} {outcome.name:{width}}  {', '.join(counts):36} {outcome.seconds:6.1f} s", flush=True)
    if outcome.failed:
        print("\n".join(f"    failed: {what}" for what in outcome.failed))
        print("\n".join(f"    | {line}" for line in outcome.output.splitlines()), flush=True)


def parse(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="the build folder")
    parser.add_argument("names", nargs="*", help="words that a test's name or suite contains; none: all")
    parser.add_argument("--nightly", action="store_true", help="also the suite nightly")
    return parser.parse_intermixed_args(words)  # tools/test has the names last


def main():
    options = parse()
    sanitizer = next(o["value"] for o in introspect(options.folder, "--buildoptions") if o["name"] == "b_sanitize")
    prefix = []
    if sanitizer == "thread" and subprocess.run([shutil.which("setarch") or "false", "-R", "true"], check=False,
                                                capture_output=True).returncode == 0:
        prefix = ["setarch", "-R"]  # ThreadSanitizer does not work with the full address randomisation of a new kernel
    tests, late = selection(introspect(options.folder, "--tests"), options.names, options.nightly)
    environment = SANITIZER_OPTIONS if sanitizer != "none" else {}
    width = max((len(test["name"]) for test in tests), default=0)

    outcomes = []
    for outcome in run_all(tests, options.folder, prefix, environment, SLOWER.get(sanitizer, 3)):
        outcomes.append(outcome)
        show(outcome, len(outcomes), len(tests), width)

    print()
    for outcome in outcomes:
        for what in outcome.failed:
            print(f"failed: {outcome.name}: {what}")
    for outcome in outcomes:
        for case, reason in outcome.skipped:
            print(f"skipped: {outcome.name}: {case}: {reason}")
    for name in late:
        print(f"skipped: {name}: takes long; tools/test --nightly runs it")
    failed = sum(len(outcome.failed) for outcome in outcomes)
    passed = sum(outcome.passed for outcome in outcomes)
    skipped = sum(len(outcome.skipped) for outcome in outcomes) + len(late)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
