#include "anellorun/hosts_doctor.h"

#include "anellorun/hosts.h"
#include "anellorun/supervisor.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <sstream>
#include <system_error>

namespace anellorun {
namespace {

using namespace std::chrono_literals;
using shared::Finding;
using shared::Verdict;

constexpr auto kAnswer = 15s;
constexpr auto kExamination = 60s;
constexpr auto kFarewell = 5s;
constexpr std::size_t kMostSaid = 64 * 1024;

// What the doctor of one host has said, but for what is ok; its last line, the summary, is the heading.
std::string shortened(const std::string& said, std::string& summary) {
  std::istringstream lines(said);
  std::string kept;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.rfind("ok ", 0) == 0) continue;
    if (line.find(" checks: ") != std::string::npos) {
      summary = line;
    } else {
      kept += line + "\n";
    }
  }
  return kept;
}

std::string last_line(const std::string& said) {
  std::istringstream lines(said);
  std::string last;
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) last = line;
  }
  return last;
}

}  // namespace

std::string doctor_program(const std::string& agent_path) {
  const std::string launcher = agent_path.empty() ? own_path() : agent_path;
  const auto slash = launcher.rfind('/');
  return (slash == std::string::npos ? "" : launcher.substr(0, slash + 1)) + "anello-info";
}

HostsDoctor::HostsDoctor(const Options& options) : options_(options), signals_(kEndingSignals, {SIGPIPE}) {}

HostsDoctor::~HostsDoctor() = default;

int HostsDoctor::run() {
  reach_all();
  try_pairs();
  examine_each();
  std::vector<Finding> lost;
  bool healthy = true;
  for (const Patient& patient : patients_) {
    std::string summary;
    const std::string kept = shortened(patient.said, summary);
    if (patient.status && (!summary.empty() || *patient.status == 0)) {
      std::cout << "host " << patient.share->host << ": " << summary << '\n' << kept << '\n';
      healthy = healthy && *patient.status == 0;
      continue;
    }
    lost.push_back(not_examined(patient));
  }
  std::vector<Finding> between = pairs_.findings();
  between.insert(between.begin(), lost.begin(), lost.end());
  std::cout << "between hosts: " << shared::summary(between) << '\n' << shared::as_lines(between);
  return std::cout.flush() && healthy && !shared::has_problem(between) ? 0 : 1;
}

Finding HostsDoctor::not_examined(const Patient& patient) const {
  const std::string& host = patient.share->host;
  std::string why = patient.lost, remedy = patient.remedy;
  if (why.empty()) {
    why = "anello-info " + describe_end(patient.status.value_or(0));
    const std::string last = last_line(patient.said);
    if (!last.empty()) why += " (" + last + ")";
    remedy = "on " + host + ": " + patient.share->programs.front().words.front() + " --doctor";
  }
  if (remedy.empty()) remedy = "ssh " + host + " true        must work without a password";
  return {Verdict::problem, host, why, "Nothing more could be found out about this host.", remedy};
}

// Starts an agent on each host and asks where it can be reached.
void HostsDoctor::reach_all() {
  for (const Share& share : options_.shares) {
    Patient& patient = patients_.emplace_back();
    patient.share = &share;
    try {
      patient.host =
          std::make_unique<RemoteHost>(agent_command(share.host, variable("ANELLO_SSH"), options_.agent_path), share,
                                       static_cast<HostEvents&>(*this), signals_.original());
    } catch (const std::system_error& failure) {
      lose(patient, failure.what());
    }
  }
  wait_for_all([](const Patient& each) { return each.host->greeted(); }, kGreeting, "its agent did not answer");
  const Program& program = options_.shares.front().programs.front();
  for (const std::size_t i : answering())
    patients_[i].host->ask_offers(wanted_interfaces(program), variable("ANELLO_PORT_RANGE", program));
  wait_for_all([](const Patient& each) { return each.host->offers().has_value(); }, kAnswer,
               "its agent did not say its addresses");
}

// In each round every host tries one other, and is tried by one.
void HostsDoctor::try_pairs() {
  const std::vector<std::size_t> hosts = answering();
  for (std::size_t distance = 1; distance < hosts.size(); ++distance) {
    std::map<const Patient*, const Patient*> tried;
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      const Patient& from = patients_[hosts[i]];
      const Patient& to = patients_[hosts[(i + distance) % hosts.size()]];
      if (!from.lost.empty() || !to.lost.empty()) continue;
      from.host->ask_probe(to.host->nonce(), *to.host->offers());
      tried[&from] = &to;
    }
    wait_for_all([&](const Patient& each) { return tried.count(&each) == 0 || each.host->probed().has_value(); },
                 kAnswer, "its agent did not say what it reaches");
    for (const auto& [from, to] : tried) {
      // A host that was lost in the meantime could not answer.
      if (from->lost.empty() && to->lost.empty())
        pairs_.tried(from->share->host, to->share->host, *to->host->offers(), *from->host->probed());
    }
  }
}

void HostsDoctor::examine_each() {
  JobOrder order{new_job_name(), options_.folder, environment_for_others(), {}};
  for (const std::size_t i : answering()) {
    order.share = *patients_[i].share;
    patients_[i].host->send_job(order, secret_);
    patients_[i].host->start({});
  }
  wait_for_all([](const Patient& each) { return each.status.has_value(); }, kExamination,
               "anello-info --doctor did not end");
  const std::vector<std::size_t> hosts = answering();
  for (const std::size_t i : hosts) patients_[i].host->finish();
  const auto end = Clock::now() + kFarewell;
  const auto left = [&] {
    return std::any_of(hosts.begin(), hosts.end(), [&](std::size_t i) { return !patients_[i].host->done(); });
  };
  while (left() && Clock::now() < end) poll_once(end);
}

std::vector<std::size_t> HostsDoctor::answering() const {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < patients_.size(); ++i) {
    if (patients_[i].lost.empty()) found.push_back(i);
  }
  return found;
}

void HostsDoctor::lose(Patient& patient, const std::string& why) {
  if (patient.lost.empty() && !patient.status) patient.lost = why;
}

void HostsDoctor::lose(Patient& patient, const CannotStart& failure) {
  lose(patient, "'" + failure.program + "' cannot be started there: " + strerror(failure.code));
  patient.remedy =
      "anellorun --agent-path PATH ..        PATH: an anellorun on that host that has anello-info beside it";
}

void HostsDoctor::wait_for_all(const std::function<bool(const Patient&)>& holds, std::chrono::seconds time,
                               const std::string& lacking) {
  const auto end = Clock::now() + time;
  const auto waiting = [&](const Patient& each) { return each.lost.empty() && !holds(each); };
  while (std::any_of(patients_.begin(), patients_.end(), waiting)) {
    if (Clock::now() >= end) {
      for (Patient& each : patients_) {
        if (waiting(each)) lose(each, lacking + " within " + std::to_string(time / 1s) + " s");
      }
      return;
    }
    poll_once(end);
  }
}

void HostsDoctor::poll_once(Clock::time_point end) {
  std::vector<pollfd> watched{{signals_.descriptor(), POLLIN, 0}};
  std::vector<std::size_t> begins;
  auto next = end;
  for (const Patient& each : patients_) {
    begins.push_back(watched.size());
    if (!each.host) continue;
    each.host->watch(watched);
    if (const auto at = each.host->deadline()) next = std::min(next, *at);
  }
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()).count();
  const int ready = poll(watched.data(), watched.size(), static_cast<int>(std::clamp<long long>(left, 0, 60'000)));
  if (ready < 0 && errno != EINTR) fail("poll");
  for (std::size_t i = 0; i < patients_.size() && ready > 0; ++i) {
    if (!patients_[i].host) continue;
    try {
      patients_[i].host->take(watched.data() + begins[i]);
    } catch (const CannotStart& failure) {
      lose(patients_[i], failure);
    }
  }
  if (ready > 0 && watched[0].revents != 0) take_signals();
  for (const Patient& each : patients_) {
    if (each.host) each.host->keep_deadlines(Clock::now());
  }
}

void HostsDoctor::take_signals() {
  while (const auto info = signals_.next()) {
    if (info->ssi_signo != SIGCHLD) throw Interrupted{static_cast<int>(info->ssi_signo)};
    for (Patient& each : patients_) {
      if (!each.host) continue;
      try {
        each.host->child_ended();
      } catch (const CannotStart& failure) {
        lose(each, failure);
      }
    }
  }
}

void HostsDoctor::output(int rank, Stream, std::string_view bytes) {
  std::string& said = patient_of(rank).said;
  said.append(bytes.substr(0, kMostSaid - std::min(kMostSaid, said.size())));
}

void HostsDoctor::ended(int rank, pid_t, int status) { patient_of(rank).status = status; }

void HostsDoctor::lost(const Share& share, const std::string& why) { lose(patient_of(share.first), why); }

}  // namespace anellorun
