#pragma once
// The parsed command line. The launcher's own options end at the first word that is not one of them: that word is the
// program, and everything after it belongs to the program, even if it looks like an option of the launcher.
#include "anellorun/job.h"
#include "anellorun/roster.h"
#include "anellorun/share.h"

#include <optional>
#include <string>
#include <vector>

namespace anellorun {

inline constexpr int kMaxRanks = 4096;
inline constexpr int kMaxRestarts = 1000;
inline constexpr int kMaxWorkers = 1'000'000;  // processes of an elastic job, one after the other

// Exit codes of the launcher itself, besides kExitUsage (shared/command_line.h), as in shells, env(1) and timeout(1).
inline constexpr int kExitTimeout = 124;
inline constexpr int kExitHostLost = 125;
inline constexpr int kExitCannotStart = 126;
inline constexpr int kExitNotFound = 127;

struct Options {
  std::vector<Share> shares;  // one for each host; not empty
  bool on_agents = false;     // the user has named hosts
  // A launcher on each host starts a share (--nnodes): they have the same place, and ANELLO_SECRET_FILE.
  bool others_start_too = false;
  std::optional<MeetingPlace> place;  // as the user wants it
  int port = 0;                       // likewise, at an address that is found when the job starts; 0: any
  std::string job_name;               // empty: a random one, or with others_start_too none
  std::string folder;                 // in which ranks start; empty: this process's own
  std::string agent_path;             // of anellorun on other hosts; empty: as here
  std::string log_folder;             // for a file of each rank; empty: none
  bool tee = false;                   // their output goes to the screen too
  bool tag_output = false;
  bool keep_going = false;
  bool dry_run = false;
  bool oversubscribe = false;  // more ranks than slots or processors are meant
  bool doctor = false;         // each share has one rank, which runs the doctor
  double timeout_seconds = 0;  // 0: none
  std::optional<ElasticWishes> elastic;

  int world() const { return shares.front().world; }
};

// False if there is nothing to run: it has printed help or a mistake; exit_code says which.
bool parse(int argc, char** argv, Options& options, int& exit_code);

}  // namespace anellorun
