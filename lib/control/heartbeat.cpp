#include "control/heartbeat.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "control/agent.h"
#include "control/bodies.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <string_view>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace anello::control {
namespace {

constexpr int kBeatsInLimit = 10;
constexpr int kBeatsToSuspect = 3;
// Ranks per host that send beats: while one is stopped and this is not known yet, the other one speaks.
constexpr int kSpeakers = 2;
constexpr std::size_t kMostNamed = 4;
// The number of retransmissions of one beat, on a full or lossy link, before its host counts as lost.
constexpr int kRetransmissions = 4;

// The kernel's information on a rank's control connection. False: there is none, or it is not over a network.
bool look_at_connection(Agent& agent, int rank, tcp_info& info) {
  const Link* const link = agent.tree().link_to(rank);
  socklen_t size = sizeof info;
  return link != nullptr && link->open() &&
         ::getsockopt(link->stream()->descriptor(), IPPROTO_TCP, TCP_INFO, &info, &size) == 0;
}

std::string seconds(std::int64_t ms) {
  char number[32];
  std::snprintf(number, sizeof number, "%.1f s", static_cast<double>(ms) / 1000);
  return number;
}

std::string names(const Agent& agent, const std::vector<int>& ranks) {
  std::string list;
  for (std::size_t i = 0; i < ranks.size() && i < kMostNamed; ++i)
    list += text(i == 0 ? "" : ", ", agent.who(ranks[i]));
  return ranks.size() > kMostNamed ? text(list, " and ", ranks.size() - kMostNamed, " more") : list;
}

const char* called(Life life) {
  return life == Life::stopped  ? "stopped, by a signal or a debugger"
         : life == Life::silent ? "silent"
                                : "heard from again";
}

}  // namespace

Heartbeat::Heartbeat(Agent& agent, int size)
    : agent_(agent), processes_(agent), lives_(static_cast<std::size_t>(size)) {}

void Heartbeat::start() {
  std::map<std::uint64_t, std::size_t> hosts;
  bool one_process = true;
  for (const Peer& peer : agent_.peers()) {
    host_of_.push_back(hosts.try_emplace(peer.reach, hosts.size()).first->second);
    hosts_.resize(hosts.size());
    hosts_[host_of_.back()].ranks.push_back(peer.member.rank);
    one_process = one_process && peer.member.process == agent_.peer(agent_.rank()).member.process;
  }
  if (limit_ms_ == 0 || one_process) return;
  beat_ns_ = limit_ms_ * kMs / kBeatsInLimit;
  suspect_ns_ = kBeatsToSuspect * beat_ns_;
  next_turn_ns_ = next_beat_ns_ = now_ns();
  processes_.start();
  agent_.service().spawn("heartbeat", run(agent_.weak_from_this()));
}

Task<> Heartbeat::run(std::weak_ptr<Agent> weak) {
  std::shared_ptr<Agent> agent = weak.lock();
  if (!agent) co_return;
  asio::io_context& io = agent->service().io();
  while (agent && !agent->leaving()) {
    const std::int64_t ms = agent->heartbeat().turn();
    agent.reset();
    co_await sleep_ms(io, ms);
    agent = weak.lock();
  }
}

std::int64_t Heartbeat::turn() {
  const std::int64_t now = now_ns();
  // This thread was stopped or starved: the others' messages lie unread.
  if (const std::int64_t late = now - next_turn_ns_; late > beat_ns_ / 2) {
    for (Host& host : hosts_) {
      if (host.heard_ns != 0) host.heard_ns += late;
    }
  }
  const bool beat = now >= next_beat_ns_;
  if (beat) {
    next_beat_ns_ = now + beat_ns_;
    processes_.look();
  }
  const int parent = agent_.lowest_here();
  const bool listens = parent == agent_.rank() || (!agent_.same_host(parent) && speaks());
  if (const int under = listens ? parent : -1; under != under_) {
    under_ = under;
    for (Host& host : hosts_) host.heard_ns = 0, host.suspected = false;
  }
  if (listens && parent == agent_.rank()) {
    watch_hosts(now, beat);
  } else if (listens) {
    watch_parent(parent, now, beat);
  }
  next_turn_ns_ = next_beat_ns_;
  for (const Host& host : hosts_) {
    if (host.heard_ns == 0) continue;
    const std::int64_t then = host.heard_ns + (host.suspected ? limit_ms_ * kMs : suspect_ns_);
    next_turn_ns_ = std::min(next_turn_ns_, std::max(then, now + beat_ns_ / 4));
  }
  if (const std::int64_t heard = host_of(parent).heard_ns; under_ >= 0 && parent != agent_.rank() && heard != 0)
    next_turn_ns_ = std::min(next_turn_ns_, std::max(heard + overdue_ns(), now + beat_ns_ / 4));
  return std::max<std::int64_t>((next_turn_ns_ - now + kMs - 1) / kMs, 1);
}

// ---- Silence ----

void Heartbeat::watch_parent(int parent, std::int64_t now, bool beat) {
  Host& host = host_of(parent);
  if (agent_.tree().link_to(parent) == nullptr) {
    host.heard_ns = 0;
    return;
  }
  if (host.heard_ns == 0) host.heard_ns = now;
  // TCP retransmits a lost frame as soon as a later one is acknowledged, and otherwise after 200, 400, 800 ms.
  if (beat || now - host.heard_ns >= overdue_ns()) ask(parent);
  check_silence(host, now, {parent});
}

void Heartbeat::watch_hosts(std::int64_t now, bool beat) {
  for (Host& host : hosts_) {
    if (host.heard_ns == 0) continue;
    const std::vector<int> ranks = remote_here(host);
    if (ranks.empty()) {
      host.heard_ns = 0;
      continue;
    }
    // The ranks that speak may be stopped, while others could speak.
    if (beat && now - host.heard_ns > suspect_ns_ / 2) {
      for (const int rank : ranks) ask(rank);
    }
    check_silence(host, now, ranks);
  }
}

void Heartbeat::check_silence(Host& host, std::int64_t now, const std::vector<int>& of) {
  const std::int64_t silent_ns = now - host.heard_ns;
  if (silent_ns < suspect_ns_) return;
  const std::int64_t slowness_ns = retransmission_ns(of);
  if (!host.suspected && silent_ns >= suspect_ns_ + slowness_ns) {
    host.suspected = true;
    std::vector<int> silent;
    for (const int rank : remote_here(host)) {
      if (life(rank) == Life::heard) silent.push_back(rank);
    }
    if (!silent.empty()) found(silent, Life::silent);
  }
  if (silent_ns < limit_ms_ * kMs + std::min(kRetransmissions * slowness_ns, 2 * limit_ms_ * kMs)) return;
  const bool answers = kernel_answers(of);
  const bool is_parent = of.front() == agent_.lowest_here();
  // Other ranks of its host have reported this, and while the host answers on its connections, the process exists.
  if (is_parent && answers && life(of.front()) == Life::stopped) return;
  // If the host itself does not answer, none of its ranks is reachable. If it does, the next rank may be alive.
  const std::vector<int> lost = is_parent && answers ? of : remote_here(host);
  host.heard_ns = 0;
  give_up(lost, silent_ns / kMs, answers);
}

void Heartbeat::give_up(const std::vector<int>& ranks, std::int64_t silent_ms, bool answers) {
  const std::string how = text(
      "its host has said nothing for ", seconds(silent_ms),
      answers ? "; the host still acknowledges what it is sent, so its ranks are stopped or frozen, or get no processor"
              : "; usually a cable or switch is down, a firewall drops packets, or the host is frozen or off",
      " (ANELLO_SILENCE_MS sets the limit)");
  // The other ranks of this host rely on this rank to listen to it.
  if (agent_.lowest_here() != agent_.rank()) {
    std::vector<int> mates;
    for (const int rank : host_of(agent_.rank()).ranks) {
      if (rank != agent_.rank() && agent_.here(rank)) mates.push_back(rank);
    }
    agent_.detour().send_directly(Agent::lost_by_silence(ranks, how), mates);
  }
  agent_.report_silent(ranks, how, -1);
}

// The kernel's retransmission timeout without its minimum of 200 ms: nearly zero on a healthy link, a second if beats
// wait behind data.
std::int64_t Heartbeat::retransmission_ns(const std::vector<int>& ranks) const {
  std::int64_t slowest_us = 0;
  for (const int rank : ranks) {
    struct tcp_info info {};
    if (!look_at_connection(agent_, rank, info)) continue;
    slowest_us = std::max<std::int64_t>(slowest_us, info.tcpi_rtt + std::int64_t{4} * info.tcpi_rttvar);
  }
  return slowest_us * 1000;
}

// Within the last half of the limit: beats were sent the whole time.
bool Heartbeat::kernel_answers(const std::vector<int>& ranks) const {
  return std::any_of(ranks.begin(), ranks.end(), [&](int rank) {
    struct tcp_info info {};
    return look_at_connection(agent_, rank, info) && info.tcpi_last_ack_recv < limit_ms_ / 2;
  });
}

bool Heartbeat::speaks() const {
  int before = 0;
  for (int rank = 0; rank < agent_.rank(); ++rank) {
    if (agent_.same_host(rank) && agent_.here(rank) && life(rank) != Life::stopped) ++before;
  }
  return before < kSpeakers;
}

std::vector<int> Heartbeat::remote_here(const Host& host) const {
  std::vector<int> ranks;
  for (const int rank : host.ranks) {
    if (rank != agent_.rank() && agent_.here(rank) && !agent_.same_host(rank)) ranks.push_back(rank);
  }
  return ranks;
}

// ---- Signs of life ----

void Heartbeat::ask(int rank) {
  Link* const link = agent_.tree().link_to(rank);
  // A frame that waits to be sent is also a sign of life when it arrives.
  if (link != nullptr && link->idle()) link->send(Writer().put<std::uint8_t>(1).frame(kBeat));
}

void Heartbeat::beat(int from, Reader& reader) {
  const bool wants_answer = take_beat(reader);
  if (limit_ms_ == 0 || host_of_.empty() || agent_.same_host(from)) return;
  // After its first beat, the rank that receives all beats expects more.
  if (Host& host = host_of(from); host.heard_ns == 0 && agent_.lowest_here() == agent_.rank()) host.heard_ns = now_ns();
  Link* const link = agent_.tree().link_to(from);
  if (wants_answer && link != nullptr && link->idle()) link->send(Writer().put<std::uint8_t>(0).frame(kBeat));
}

void Heartbeat::heard(int from) {
  if (limit_ms_ == 0 || host_of_.empty() || agent_.same_host(from)) return;
  Host& host = host_of(from);
  const bool listens = host.heard_ns != 0;
  if (listens) host.heard_ns = now_ns();
  if (life(from) == Life::stopped) found({from}, Life::heard);
  // The rank that suspected the host may have been another one, which has left since.
  const bool others_suspect = listens && life(from) == Life::silent;
  if (!std::exchange(host.suspected, false) && !others_suspect) return;
  std::vector<int> again;
  for (const int rank : remote_here(host)) {
    if (life(rank) == Life::silent) again.push_back(rank);
  }
  if (!again.empty()) found(again, Life::heard);
}

void Heartbeat::found(const std::vector<int>& ranks, Life life) {
  log::warn(agent_.rank(), names(agent_, ranks), ranks.size() == 1 ? " is " : " are ", called(life),
            life == Life::silent
                ? text(": nothing for ", seconds(suspect_ns_ / kMs), "; lost after ", seconds(limit_ms_))
                : "");
  Writer writer;
  const std::size_t listed = std::min(ranks.size(), kMaxListed);
  writer.put(life).put(static_cast<std::uint32_t>(listed));
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    lives_[static_cast<std::size_t>(ranks[i])].store(life, std::memory_order_relaxed);
    if (i < listed) writer.put(ranks[i]);
  }
  const Frame frame = writer.frame(kLife);
  const int parent = agent_.lowest_here();
  if (life != Life::stopped || std::find(ranks.begin(), ranks.end(), parent) == ranks.end()) {
    agent_.tree().send(frame);
    return;
  }
  // The rank that would forward it does not run.
  std::vector<int> others;
  for (int rank = 0; rank < agent_.size(); ++rank) {
    if (rank != agent_.rank() && agent_.here(rank) && this->life(rank) != Life::stopped) others.push_back(rank);
  }
  agent_.detour().send_directly(frame, others);
}

void Heartbeat::told(Reader& reader) {
  const auto [life, told] = take_life(reader, agent_.size());
  std::vector<int> ranks;
  for (const int rank : told) {
    if (rank == agent_.rank() || !agent_.here(rank)) continue;
    ranks.push_back(rank);
    lives_[static_cast<std::size_t>(rank)].store(life, std::memory_order_relaxed);
  }
  if (!ranks.empty()) log::info(agent_.rank(), "told that ", names(agent_, ranks), " is ", called(life));
}

Life Heartbeat::look_at(int rank) const {
  const Peer& self = agent_.peer(agent_.rank());
  const Peer& peer = agent_.peer(rank);
  const bool can_see = self.process_space != 0 && peer.process_space == self.process_space;
  if (can_see && peer.member.process != self.member.process && ProcessState(peer.member.pid).stopped())
    return Life::stopped;
  return life(rank);
}

}  // namespace anello::control
