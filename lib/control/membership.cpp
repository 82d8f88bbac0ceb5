#include "control/membership.h"

#include "base/log.h"
#include "control/agent.h"
#include "control/descriptor_watch.h"
#include "control/host.h"

#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>

#include <poll.h>

namespace anello::control {
namespace {

// Added to the goodbye's own limit, for a service thread that gets no processor.
constexpr auto kLeaveLimit = std::chrono::milliseconds(3'500);
// The time for a service thread to send its news if it gets no processor.
constexpr auto kTellLimit = std::chrono::milliseconds(500);

// News that the service thread must forward.
class Telling {
 public:
  void begin() {
    const std::lock_guard lock(mutex_);
    ++under_way_;
  }
  void end() {
    const std::lock_guard lock(mutex_);
    if (--under_way_ == 0) none_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    none_.wait_for(lock, kTellLimit, [this] { return under_way_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable none_;
  int under_way_ = 0;
};

class Membership final : public Job {
 public:
  Membership(ServiceHold hold, std::shared_ptr<Agent> agent, Shared shared)
      : hold_(std::move(hold)),
        agent_(std::move(agent)),
        shared_(std::move(shared)),
        group_(agent_->group()),
        watch_(std::make_shared<DescriptorWatch>(*hold_)) {
    for (const Peer& peer : agent_->peers()) members_.push_back(peer.member);
    const int index = members_[static_cast<std::size_t>(rank())].local_index;
    if (group_ && index >= 0) arena_ = group_->arena(index);
    agent_->mailbox().announce_to(&news);
  }

  ~Membership() override {
    agent_->mailbox().announce_to(nullptr);
    if (in_forked_child()) {
      // Sockets and mapping belong to the parent, and there is no service thread here. The child must not touch any of
      // this.
      new std::shared_ptr<Agent>(std::move(agent_));
      new std::shared_ptr<DescriptorWatch>(std::move(watch_));
      return;
    }
    watch_->unwatch();
    // This comes first, so that ranks that see this process end or its links close know that it left.
    if (arena_) arena_.inbox(arena_.index()).state.store(memory::RankState::left, std::memory_order_release);
    const auto left = std::make_shared<std::promise<void>>();
    std::future<void> done = left->get_future();
    hold_->post([agent = agent_, left] {
      agent->service().spawn("leave", Agent::leave(agent, [left] { left->set_value(); }));
    });
    done.wait_for(kLeaveLimit);
  }

  int rank() const override { return agent_->rank(); }
  int size() const override { return agent_->size(); }
  const Shared& shared() const override { return shared_; }
  const std::vector<Member>& members() const override { return members_; }
  const memory::Arena& arena() const override { return arena_; }
  int wake_descriptor() const override { return agent_->mailbox().wake_descriptor(); }
  std::vector<Event> take_events() override { return agent_->mailbox().take(); }

  void request_lane(int peer) override {
    post([agent = agent_, peer] { agent->lanes().request(peer); });
  }
  void request_region(int peer, std::uint64_t region) override {
    post([agent = agent_, peer, region] { agent->regions().request(peer, region); });
  }
  bool process_ended(int rank) const override {
    if (!group_) return false;
    for (const Death& death : group_->deaths()) {
      if (death.process != members_[std::size_t(rank)].process) continue;
      pollfd interest{death.descriptor.get(), POLLIN, 0};
      return ::poll(&interest, 1, 0) > 0;
    }
    return false;
  }
  Life life(int rank, Look look) const override {
    return look == Look::by_ear ? agent_->heartbeat().life(rank) : agent_->heartbeat().look_at(rank);
  }
  void add_communicator(std::uint64_t id, std::vector<int> ranks, recorder::Record* record) override {
    agent_->calls().add(id, std::move(ranks), record);
  }
  void remove_communicator(std::uint64_t id) override { agent_->calls().remove(id); }
  void compare_calls(std::uint64_t id, std::uint32_t sequence, int differs) override {
    post([agent = agent_, id, sequence, differs] { agent->calls().compare(id, sequence, differs); });
  }
  void check_calls(std::uint64_t id, std::uint32_t sequence) override {
    post([agent = agent_, id, sequence] { agent->calls().look(id, sequence); });
  }
  Absent absent(std::uint64_t id, std::uint32_t sequence) override { return agent_->calls().absent(id, sequence); }
  void fail_communicator(std::uint64_t id, const Error& cause) override {
    // Takes the ranks as they are now: the communicator may be removed before the service thread runs this.
    if (auto ranks = agent_->calls().ranks_of(id)) {
      telling_->begin();
      post([agent = agent_, id, ranks = std::move(*ranks), cause, telling = telling_] {
        agent->calls().send_to_all(id, ranks, cause);
        telling->end();
      });
    }
  }
  void finish_telling() override {
    if (!in_forked_child()) telling_->wait();
  }
  void watch(int descriptor, std::function<void()> readable) override {
    if (!in_forked_child()) watch_->watch(descriptor, std::move(readable));
  }
  void unwatch() override {
    if (!in_forked_child()) watch_->unwatch();
  }

 private:
  template <class Work>
  void post(Work work) {
    if (!in_forked_child()) hold_->post(std::move(work));
  }

  ServiceHold hold_;  // released last
  std::shared_ptr<Agent> agent_;
  Shared shared_;
  std::vector<Member> members_;
  std::shared_ptr<LocalGroup> group_;
  memory::Arena arena_;
  std::shared_ptr<DescriptorWatch> watch_;
  const std::shared_ptr<Telling> telling_ = std::make_shared<Telling>();
};

class LoneMembership final : public Job {
 public:
  explicit LoneMembership(Shared shared) : shared_(std::move(shared)) {
    const Host& host = this_host();
    members_.push_back({0, host.name, host.pid, host.process, random_number(), -1, Processors::of_this_process(), 0});
  }
  ~LoneMembership() override {
    if (in_forked_child()) new std::shared_ptr<DescriptorWatch>(std::move(watch_));  // it is the parent's
  }
  int rank() const override { return 0; }
  int size() const override { return 1; }
  const Shared& shared() const override { return shared_; }
  const std::vector<Member>& members() const override { return members_; }
  const memory::Arena& arena() const override { return arena_; }
  int wake_descriptor() const override { return mailbox_.wake_descriptor(); }
  std::vector<Event> take_events() override { return mailbox_.take(); }
  // There is no other rank to reach, ask or tell.
  void request_lane(int) override {}
  void request_region(int, std::uint64_t) override {}
  void add_communicator(std::uint64_t, std::vector<int>, recorder::Record*) override {}
  void remove_communicator(std::uint64_t) override {}
  void compare_calls(std::uint64_t, std::uint32_t, int) override {}
  void fail_communicator(std::uint64_t, const Error&) override {}
  // Only for operations that wait for a device: all others of a single rank complete at once.
  void watch(int descriptor, std::function<void()> readable) override {
    if (in_forked_child()) return;
    try {
      if (!hold_) hold_ = ServiceHold::take();
      if (watch_ == nullptr) watch_ = std::make_shared<DescriptorWatch>(*hold_);
      watch_->watch(descriptor, std::move(readable));
    } catch (const Error& why_not) {
      log::warn(0, "operations go on only while somebody waits: ", why_not.text());
    }
  }
  void unwatch() override {
    if (watch_ != nullptr && !in_forked_child()) watch_->unwatch();
  }

 private:
  ServiceHold hold_;  // none as long as nothing is watched; released last
  Mailbox mailbox_;
  Shared shared_;
  std::vector<Member> members_;
  memory::Arena arena_;
  std::shared_ptr<DescriptorWatch> watch_;
};

}  // namespace

std::unique_ptr<Job> make_membership(ServiceHold hold, std::shared_ptr<Agent> agent, Shared shared) {
  return std::make_unique<Membership>(std::move(hold), std::move(agent), std::move(shared));
}

std::unique_ptr<Job> make_lone_membership(Shared shared) { return std::make_unique<LoneMembership>(std::move(shared)); }

}  // namespace anello::control
