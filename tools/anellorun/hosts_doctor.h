#pragma once
// anellorun --doctor: runs anello-info --doctor on each host, lets each host try to reach every other one, and says
// what is wrong and what to type.
#include "anellorun/host.h"
#include "anellorun/options.h"
#include "anellorun/pair_findings.h"
#include "anellorun/process.h"
#include "anellorun/remote_host.h"
#include "anellorun/secret.h"
#include "anellorun/signals.h"

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace anellorun {

// Each of n hosts tries the n - 1 others one after the other, for up to five seconds each.
inline constexpr int kMostExamined = 64;

// The program that an agent runs on its host, beside anellorun.
std::string doctor_program(const std::string& agent_path);

class HostsDoctor final : private HostEvents {
 public:
  // options: each share has one rank, whose program is the doctor. Blocks signals. Throws std::system_error.
  explicit HostsDoctor(const Options& options);
  ~HostsDoctor();

  // Prints what is found; returns the exit code: 0 if nothing is a problem. Throws Interrupted.
  int run();

 private:
  struct Patient {
    const Share* share;
    std::unique_ptr<RemoteHost> host;
    std::string lost;  // why nothing more comes from it; empty: it answers
    std::string remedy;
    std::string said;  // by the doctor there
    std::optional<int> status;
  };

  void reach_all();
  void try_pairs();
  void examine_each();
  // Until it holds for every patient that answers. The others are lost, because of what they lack.
  void wait_for_all(const std::function<bool(const Patient&)>& holds, std::chrono::seconds time,
                    const std::string& lacking);
  shared::Finding not_examined(const Patient& patient) const;
  void poll_once(Clock::time_point end);
  void take_signals();
  std::vector<std::size_t> answering() const;
  void lose(Patient& patient, const std::string& why);
  void lose(Patient& patient, const CannotStart& failure);
  Patient& patient_of(int rank) { return patients_[static_cast<std::size_t>(rank)]; }

  void bound(int, const std::string&) override {}
  void output(int rank, Stream stream, std::string_view bytes) override;
  void ended(int rank, pid_t pid, int status) override;
  void gone(int) override {}
  bool full(Stream) const override { return false; }
  bool unread(Stream) const override { return false; }
  void lost(const Share& share, const std::string& why) override;
  void said(const Share&, std::string_view) override {}  // the last line is part of why a host is lost

  const Options& options_;
  Signals signals_;
  Secret secret_;
  std::deque<Patient> patients_;  // they stay where they are
  PairFindings pairs_;
};

}  // namespace anellorun
