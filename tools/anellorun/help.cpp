#include "anellorun/help.h"

namespace anellorun {

const char* const kHelp = R"(Examples:
  anellorun -np 4 ./prog --its-own-option      four ranks of ./prog on this machine
  anellorun -np auto python3 train.py          a rank for each GPU, or for each processor without GPUs
  anellorun -np 2 -m package.train --lr 0.1    python3 -m package.train
  anellorun -np 2 --tag-output hostname        every line says which rank wrote it: "[1] alpha"
  anellorun -np 4 -x ANELLO_TRANSPORT=tcp ./prog        with a variable for all ranks
  anellorun -np 4 --timeout 60 ./prog          ends the job after a minute, with exit code 124
  anellorun -np 2 --bind-to core ./prog        a core of its own for each rank
  anellorun -np 8 --log-dir out --tee ./prog   a file for each rank: out/rank-0.log, ..
  anellorun -np 2 sh -c 'echo rank $RANK of $WORLD_SIZE'
  anellorun -np 8 python3 train.py < data      standard input goes to rank 0
  anellorun -np 1 ./server : -np 3 ./worker    rank 0 runs one program, ranks 1 to 3 another
  anellorun --hosts alpha:2,beta:2 ./prog      two ranks on each of two hosts, started over ssh
  anellorun --hosts node[01-16]:4 ./prog       four ranks on each of node01 to node16
  anellorun --hostfile FILE -np 6 ./prog       lines of "alpha slots=4"; the first host is filled first
  anellorun --hosts alpha,beta --doctor        what is wrong on these hosts, or between them, and what to type
  anellorun --nnodes 2 --node-rank 0 --nproc-per-node 4 --master-addr alpha ./prog
                                               as with torchrun: each host has its own anellorun
  anellorun -np 2 --min-np 1 --max-np 4 --host-discovery-script ./hosts.sh python3 train.py
                                               ranks come and go while hvd.elastic.run goes on
  anellorun --dry-run ...                      says what would run where, and runs nothing

Each rank finds RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT in its environment;
anello_comm_create(NULL, &comm) needs nothing else. Ranks prove to each other that they belong to the job by a secret
that is handed down through a descriptor: it shows in no command line, environment or file. OMP_NUM_THREADS, unless it
is set, becomes the number of processors divided by the number of ranks on the host; a line on stderr says so.

Names of options may have _ in place of -.
A ':' before an option of anellorun begins another program, which takes -np and -x. Any other ':' goes to the program.
To give it one that such an option follows, put the command in sh -c '..'.

Hosts: ssh must need no password, and anellorun and the program must be under the same path on every host. Ranks start
in this folder (--wdir names another), with this shell's environment but for what describes this host and user (HOME,
TMPDIR, SSH_* and the like). The secret goes through ssh to an anellorun on each host, which starts the ranks there. An
address and a port of the first host at which all others reach it are found before any rank starts.
ANELLO_SSH, if set, is used in place of ssh; for example ANELLO_SSH='ssh -p 2222 -i key'. It gets a host and a command.

Exit code: 0 when every rank returned 0; else that of the rank that failed first (128 + n for signal n);
124 after --timeout, 125 when a host is lost, 126 when the program cannot be started, 127 when it is not found,
2 for a mistake in the options. With --doctor: 0 if it finds no problem, else 1.
When a rank fails it is named, the others have half a second to say what they saw, and then they are ended; the first
failure and that rank's last lines are the last thing printed. With --keep-going the others are not ended, and the exit
code is 0 when any rank returned 0: for programs that go on without a rank. So it is when ranks come and go.
A rank that ends before it has created a communicator for which others wait is named to these, whose creation fails.
SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 are passed on, a second of the first four kills; SIGTSTP and
SIGCONT stop and continue the ranks with the launcher.
When a host or the way to it fails, the job ends within 20 s, and what ran there ends too.)";

}  // namespace anellorun
