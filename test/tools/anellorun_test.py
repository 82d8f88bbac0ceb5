#!/usr/bin/env python3
"""anellorun, as its users and its ranks see it. Argument: the program."""

import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

from launcher import DEADLINE, Launcher, state, until

ANELLORUN = sys.argv.pop(1)
WAITS = "sleep 300"
IGNORES = "trap '' TERM INT; echo ready; while :; do sleep 0.05; done"


class Anellorun(unittest.TestCase):
    def start(self, *arguments, **more):
        launcher = Launcher(ANELLORUN, arguments, **more)
        self.addCleanup(launcher.close)
        return launcher

    def run_shell(self, ranks, script, *options, text=None, **more):
        if text is not None:
            more["stdin"] = subprocess.PIPE
        return self.start("-np", str(ranks), *options, "sh", "-c", script, **more).end(text)

    # -- what ranks find ------------------------------------------------------------------------------------------

    def test_each_rank_finds_its_number_and_the_meeting_place(self):
        names = "$RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $MASTER_ADDR $MASTER_PORT $ANELLO_JOB"
        code, out, _ = self.run_shell(3, f"echo {names}")
        self.assertEqual(code, 0)
        rows = sorted(line.split() for line in out.splitlines())
        self.assertEqual([row[:5] for row in rows], [[str(r), str(r), "3", "3", "127.0.0.1"] for r in range(3)])
        self.assertEqual(len({tuple(row[5:]) for row in rows}), 1, "ports and names differ within one job")
        self.assertTrue(0 < int(rows[0][5]) < 65536)
        self.assertRegex(rows[0][6], r"^[0-9a-f]{16}$")

    def test_x_sets_and_passes_on_variables(self):
        code, out, _ = self.run_shell(2, 'echo "$ONE,$TWO"', "-x", "ONE=a b=c", "-x", "TWO",
                                      env={"PATH": "/bin", "TWO": "2"})
        self.assertEqual((code, out), (0, "a b=c,2\n" * 2))

    def test_standard_input_goes_to_rank_0_and_to_nobody_else(self):
        code, out, _ = self.run_shell(3, "cat", "--tag-output", text="one\ntwo\n")
        self.assertEqual((code, out), (0, "[0] one\n[0] two\n"))

    def test_the_program_keeps_its_own_options(self):
        launcher = self.start("-np", "1", "printf", "%s|", "-np", "3", "--help", "--", "-x")
        self.assertEqual(launcher.end()[:2], (0, "-np|3|--help|--|-x|\n"))
        launcher = self.start("-n1", "--", "printf", "%s|", "-np")
        self.assertEqual(launcher.end()[:2], (0, "-np|\n"))

    def test_bind_to_core_gives_each_rank_one_core(self):
        code, out, _ = self.run_shell(2, "grep Cpus_allowed_list /proc/self/status; cat /sys/devices/system/cpu/cpu"
                                      "$(grep Cpus_allowed_list /proc/self/status | tr -dc '0-9,-' | sed 's/[,-].*//')"
                                      "/topology/thread_siblings_list", "--bind-to", "core", "--tag-output")
        self.assertEqual(code, 0)
        for rank in range(2):
            mask, core = [line.split()[-1] for line in out.splitlines() if line.startswith(f"[{rank}]")]
            self.assertEqual(mask, core, "not exactly the hardware threads of one core")

    def test_ranks_inherit_standard_streams_the_secret_and_who_has_ended_only(self):
        code, out, _ = self.run_shell(2, "cd /proc/self/fd && echo $ANELLO_SECRET_FD $ANELLO_ENDED_FD: *")
        self.assertEqual(code, 0)
        for line in out.splitlines():
            handed_down, open_now = line.split(":")
            handed_down = set(handed_down.split())
            # The shell that expands the star may have the folder itself open, under the lowest number that is free.
            free = min({"3", "4", "5"} - handed_down)
            self.assertLessEqual(set(open_now.split()) - {"0", "1", "2"} - handed_down, {free})

    # -- the secret -----------------------------------------------------------------------------------------------

    def test_the_secret_is_equal_on_all_ranks_and_new_in_each_job(self):
        script = "head -c 100 <&$ANELLO_SECRET_FD | od -An -v -tx1 | tr -d ' \\n'; echo"
        jobs = []
        for _ in range(2):
            # bash: dash knows no descriptor above 9.
            code, out, _ = self.start("-np", "5", "bash", "-c", script).end()
            self.assertEqual(code, 0)
            jobs.append(set(out.split()))
        self.assertEqual([len(job) for job in jobs], [1, 1], "each rank reads it whole, from the beginning")
        self.assertRegex(*jobs[0], r"^[0-9a-f]{64}$")
        self.assertNotEqual(*jobs)

    def test_the_secret_stands_in_no_command_line_environment_or_rank_number(self):
        script = "head -c 32 /proc/self/fd/$ANELLO_SECRET_FD | od -An -v -tx1 | tr -d ' \\n'; echo \" $$\"; read wait"
        launcher = self.start("-np", "1", "sh", "-c", script, stdin=subprocess.PIPE)
        text, pid = launcher.line().split()
        secret = bytes.fromhex(text)
        self.assertEqual(len(secret), 32)
        for process in (pid, launcher.process.pid):
            for name in ("cmdline", "environ"):
                shown = pathlib.Path(f"/proc/{process}/{name}").read_bytes()
                self.assertTrue(shown)
                for form in (secret, text.encode(), text.upper().encode(), secret[:8]):
                    self.assertNotIn(form, shown)
        self.assertEqual(launcher.end("\n")[0], 0)

    def test_the_secret_cannot_be_changed(self):
        code, _, _ = self.run_shell(1, "echo changed 2>&- 1<>/proc/self/fd/$ANELLO_SECRET_FD && exit 9; "
                                    "test $(head -c 99 /proc/self/fd/$ANELLO_SECRET_FD | wc -c) = 32")
        self.assertEqual(code, 0)

    # -- output ---------------------------------------------------------------------------------------------------

    def test_tag_output_begins_each_line_of_both_streams_with_its_rank(self):
        code, out, err = self.run_shell(2, "echo out $RANK; echo err $RANK >&2; printf unfinished", "--tag-output")
        self.assertEqual(code, 0)
        self.assertEqual(sorted(out.splitlines()), ["[0] out 0", "[0] unfinished", "[1] out 1", "[1] unfinished"])
        self.assertEqual(sorted(err.splitlines()), ["[0] err 0", "[1] err 1"])

    def test_lines_of_several_ranks_are_not_mixed(self):
        script = 'i=0; while [ $i -lt 200 ]; do printf "<$RANK"; printf " $i"; printf ">\\n"; i=$((i+1)); done'
        code, out, _ = self.run_shell(4, script)
        self.assertEqual(code, 0)
        lines = out.splitlines()
        for rank in range(4):
            own = [line for line in lines if line.startswith(f"<{rank} ")]
            self.assertEqual(own, [f"<{rank} {i}>" for i in range(200)], "in order, and whole")
        self.assertEqual(len(lines), 800)

    def test_more_output_than_a_pipe_holds_arrives_whole(self):
        code, out, _ = self.run_shell(2, "head -c 3000000 /dev/zero | tr '\\0' x; echo; echo end", "--tag-output")
        self.assertEqual(code, 0)
        self.assertEqual(out.count("x"), 6000000)
        self.assertEqual(out.count("] end\n"), 2)

    def test_a_reader_that_leaves_ends_the_job(self):
        launcher = self.start("-np", "2", "yes")
        self.assertEqual(launcher.line(), "y")
        launcher.process.stdout.close()
        self.assertEqual(launcher.process.wait(DEADLINE), 128 + signal.SIGPIPE)

    # -- ends -----------------------------------------------------------------------------------------------------

    def test_a_failed_rank_is_named_with_host_pid_and_code_which_becomes_the_jobs(self):
        code, out, err = self.run_shell(3, f"[ $RANK = 1 ] && {{ echo $$; exit 3; }}; exec {WAITS}")
        self.assertEqual(code, 3)
        host = pathlib.Path("/proc/sys/kernel/hostname").read_text().strip()
        self.assertEqual(err.splitlines()[0],
                         f"anellorun: rank 1 (host {host}, pid {out.strip()}) ended with exit code 3")

    def test_a_killed_rank_is_named_with_its_signal(self):
        code, _, err = self.run_shell(3, f"[ $RANK = 2 ] && kill -9 $$; exec {WAITS}")
        self.assertEqual(code, 137)
        self.assertRegex(err, r"^anellorun: rank 2 \(host \S+, pid \d+\) ended with signal 9 \(Killed\)\n")

    def test_the_rank_that_failed_first_is_named_first_and_gives_the_code(self):
        with tempfile.TemporaryDirectory() as folder:
            script = (f"cd {folder}; if [ $RANK = 2 ]; then echo $$ > new; mv new pid; exit 5; fi; "
                      "until [ -e pid ]; do sleep 0.01; done; while kill -0 $(cat pid) 2>/dev/null; do :; done; exit 6")
            code, _, err = self.run_shell(3, script)
        self.assertEqual(code, 5)
        self.assertRegex(err.splitlines()[0], r"rank 2 .* exit code 5$")

    def test_with_keep_going_the_other_ranks_live_and_their_success_counts(self):
        with tempfile.TemporaryDirectory() as folder:
            lives = (f"cd {folder}; if [ $RANK = 1 ]; then echo $$ > new; mv new pid; kill -9 $$; fi; "
                     "until [ -e pid ]; do sleep 0.01; done; while kill -0 $(cat pid) 2>/dev/null; do :; done; "
                     "sleep 1; echo $RANK lives")  # longer than the half second that others get
            code, out, err = self.run_shell(3, lives, "--keep-going")
        self.assertEqual((code, sorted(out.splitlines())), (0, ["0 lives", "2 lives"]))
        self.assertRegex(err, "rank 1 .* signal 9")
        code, _, err = self.run_shell(2, "exit $((RANK + 3))", "--keep-going")
        self.assertIn(code, (3, 4))
        self.assertEqual(len(err.splitlines()), 3, "both ends, and the first of them again")
        code, _, err = self.run_shell(2, f"[ $RANK = 0 ] && exit 5; exec {WAITS}", "--keep-going", "--timeout", "0.5")
        self.assertEqual(code, 124)

    def test_ranks_that_will_not_end_are_killed_within_two_seconds(self):
        script = f"if [ $RANK = 1 ]; then read go < $FIFO; exit 4; fi; {IGNORES}"
        with tempfile.TemporaryDirectory() as folder:
            fifo = f"{folder}/go"
            subprocess.run(["mkfifo", fifo], check=True)
            launcher = self.start("-np", "3", "-x", f"FIFO={fifo}", "sh", "-c", script)
            self.assertEqual([launcher.line(), launcher.line()], ["ready", "ready"])
            pathlib.Path(fifo).write_text("go\n")
            # On a busy machine the other one's sleeps are longer, too.
            other = subprocess.Popen(["sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.2; done"])
            self.addCleanup(other.wait)
            code, _, _ = launcher.end()
            self.assertIsNone(other.poll(), "two seconds have passed")
        self.assertEqual(code, 4)

    def test_survivors_have_time_to_say_what_they_saw(self):
        script = ("if [ $RANK = 1 ]; then until [ -e $READY ]; do sleep 0.01; done; echo $EPOCHREALTIME; exit 4; fi; "
                  "trap 'echo survivor; echo $EPOCHREALTIME; exit 1' TERM; > $READY; while :; do sleep 0.02; done")
        with tempfile.TemporaryDirectory() as folder:
            code, out, _ = self.start("-np", "2", "-x", f"READY={folder}/ready", "bash", "-c", script).end()
        self.assertEqual(code, 4)
        failed, survivor, ended = out.splitlines()
        self.assertEqual(survivor, "survivor")
        self.assertGreater(float(ended) - float(failed), 0.5)

    def test_timeout_ends_the_job_with_124_and_says_so(self):
        code, _, err = self.run_shell(2, IGNORES, "--timeout", "0.3")
        self.assertEqual(code, 124)
        self.assertIn("0.3 s have passed (--timeout): ending 2 ranks", err)

    def test_no_process_of_the_job_outlives_it(self):
        code, out, _ = self.run_shell(2, f"setsid {WAITS} >&- 2>&- & echo $!; (trap '' TERM; {WAITS}) & echo $!")
        self.assertEqual(code, 0)
        pids = out.split()
        self.assertEqual(len(pids), 4)
        self.assertEqual([state(pid) for pid in pids], ["Z"] * 4)

    def test_ranks_end_when_the_launcher_is_killed(self):
        launcher = self.start("-np", "3", "sh", "-c", f"echo $$; exec {WAITS}")
        pids = [launcher.line() for _ in range(3)]
        self.assertNotIn("Z", [state(pid) for pid in pids])
        launcher.process.kill()
        until(lambda: all(state(pid) == "Z" for pid in pids), "the ranks are gone")

    # -- signals --------------------------------------------------------------------------------------------------

    def test_signals_are_passed_on_to_every_rank(self):
        for name in ("INT", "TERM", "HUP", "QUIT", "USR1", "USR2"):
            with self.subTest(signal=name):
                script = f"trap 'echo got {name}; exit 0' {name}; echo ready; while :; do sleep 0.02; done"
                launcher = self.start("-np", "2", "sh", "-c", script)
                self.assertEqual([launcher.line(), launcher.line()], ["ready", "ready"])
                launcher.send(getattr(signal, "SIG" + name))
                code, out, _ = launcher.end()
                self.assertEqual((code, out), (0, f"got {name}\n" * 2))

    def test_ranks_that_a_signal_ends_give_128_and_its_number(self):
        launcher = self.start("-np", "2", "sh", "-c", f"echo ready; exec {WAITS}")
        self.assertEqual([launcher.line(), launcher.line()], ["ready", "ready"])
        launcher.send(signal.SIGTERM)
        code, _, err = launcher.end()
        self.assertEqual(code, 143)
        self.assertIn("SIGTERM passed on to 2 ranks", err)

    def test_a_second_interrupt_kills(self):
        launcher = self.start("-np", "2", "sh", "-c", IGNORES)
        self.assertEqual([launcher.line(), launcher.line()], ["ready", "ready"])
        launcher.send(signal.SIGINT)
        self.assertIn("passed on", launcher.process.stderr.readline())
        launcher.send(signal.SIGINT)
        self.assertEqual(launcher.end()[0], 130)

    def test_a_stopped_launcher_stops_its_ranks_and_goes_on_with_them(self):
        launcher = self.start("-np", "2", "--timeout", "60", "sh", "-c", "echo $$; read go; echo went on",
                              stdin=subprocess.PIPE)
        pids = [launcher.line(), launcher.line()]
        pids = [pid for pid in pids if pid != "went on"][:1]  # rank 1 has no input and may be gone
        launcher.send(signal.SIGTSTP)
        until(lambda: state(launcher.process.pid) == "T", "the launcher stands still")
        until(lambda: all(state(pid) in "TZ" for pid in pids), "its ranks stand still")
        launcher.send(signal.SIGCONT)
        code, out, _ = launcher.end("go\n")
        self.assertEqual(code, 0)
        self.assertIn("went on", out)

    # -- mistakes -------------------------------------------------------------------------------------------------

    def test_a_program_that_is_not_there_gives_127_and_one_that_is_none_126(self):
        code, _, err = self.start("-np", "2", "./not-there").end()
        self.assertEqual(code, 127)
        self.assertIn("cannot start './not-there': No such file or directory", err)
        code, _, err = self.start("-np", "2", "/etc/passwd").end()
        self.assertEqual(code, 126)
        self.assertIn("Permission denied", err)

    def test_mistakes_in_the_options_are_named_and_give_2(self):
        for arguments, named in [(["true"], "-np"), (["-np", "0", "true"], "0"), (["-np", "x", "true"], "x"),
                                 (["-np", "2", "--bogus", "true"], "--bogus"), (["-np", "2"], "program"),
                                 (["-np", "1", "-x", "NOT_SET_AT_ALL", "true"], "NOT_SET_AT_ALL"),
                                 (["-np", "1", "--bind-to", "moon", "true"], "--bind-to"),
                                 (["-np", "1", "--timeout", "-3", "true"], "--timeout")]:
            with self.subTest(arguments=arguments):
                code, _, err = self.start(*arguments).end()
                self.assertEqual(code, 2)
                self.assertIn(named, err)

    def test_help_teaches_by_example(self):
        code, out, _ = self.start("--help").end()
        self.assertEqual(code, 0)
        self.assertIn("anellorun -np 4 ./prog", out)
        self.assertTrue(re.search(r"Exit code", out))


if __name__ == "__main__":
    unittest.main(verbosity=2)
