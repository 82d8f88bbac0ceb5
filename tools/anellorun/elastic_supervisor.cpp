// What a supervisor does for an elastic job: its ranks are workers, which come and go. See roster.h.
#include "anellorun/hosts.h"
#include "anellorun/supervisor.h"

#include <algorithm>

namespace anellorun {

void Supervisor::start_elastic() {
  const ElasticWishes& wishes = *options_.elastic;
  elastic_name_ = options_.job_name.empty() ? new_job_name() : options_.job_name;
  roster_.emplace(wishes, static_cast<RosterActions&>(*this));
  if (wishes.script.empty()) {
    roster_->list(wishes.hosts, Clock::now());
  } else {
    discovery_.emplace(
        wishes.script, wishes.slots, signals_.original(),
        [this](std::vector<HostSlots> hosts) { roster_->list(std::move(hosts), Clock::now()); },
        [this](const std::string& text) { say(text); });
  }
}

// Each start has an agent of its own, also on this host: it ends when its workers have.
void Supervisor::start_workers(const HostSlots& host, int slot, int first, int count) {
  Share& share = shares_.emplace_back(options_.shares.front());
  share.host = host.name;
  share.first = first;
  share.ranks = count;
  share.slot = slot;
  share.slots = host.slots;
  for (int worker = first; worker < first + count; ++worker) add_rank(worker);
  alive_ += count;
  pending_.push_back(&share);
}

// Outside of the loops over hosts_. Workers meet where rank 0 says, so they need no place before.
void Supervisor::start_pending() {
  for (; !pending_.empty(); pending_.pop_front()) {
    const Share& share = *pending_.front();
    auto command = agent_command(share.host, variable("ANELLO_SSH"), options_.agent_path);
    auto host =
        std::make_unique<RemoteHost>(std::move(command), share, static_cast<HostEvents&>(*this), signals_.original());
    host->send_job({elastic_name_, options_.folder, environment_for_others(), share}, secret_);
    greeting_.insert(host.get());
    hosts_.push_back(std::move(host));
  }
  for (auto each = greeting_.begin(); each != greeting_.end();) {
    RemoteHost& host = **each;
    const bool waits = !host.greeted() && !host.done();
    if (host.greeted()) host.start({});
    if (host.greeted() && host.share().has(0)) host.give_input({});  // nothing
    each = waits ? std::next(each) : greeting_.erase(each);
  }
}

void Supervisor::told(int rank, std::string_view message) {
  if (roster_) roster_->told(rank, message, Clock::now());
}

void Supervisor::tell(int worker, const std::string& message) {
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    if (shares_[i].has(worker)) hosts_[i]->tell(worker, message);
  }
}

// Ends the agent whose last worker this was.
void Supervisor::finish_with(int rank) {
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    const Share& share = shares_[i];
    if (!share.has(rank)) continue;
    const auto first = ranks_.begin() + share.first;
    if (std::all_of(first, first + share.ranks, [](const Rank& each) { return each.ended; })) hosts_[i]->finish();
  }
}

void Supervisor::give_up(const std::string& why) {
  say(why);
  if (!exit_code_ || options_.keep_going) exit_code_ = exit_code_.value_or(1);
  cut_short_ = true;
  terminate_at_ = Clock::now();
}

}  // namespace anellorun
