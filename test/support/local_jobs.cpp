#include "support/local_jobs.h"

#include "base/text.h"
#include "memory/region.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>

namespace anello::test {

struct LocalJobs::State {
  UniqueFd file;
  std::byte* base = nullptr;
  memory::ArenaLayout layout;
  std::vector<UniqueFd> wake;
  std::vector<int> wake_numbers;
  std::vector<memory::Arena> arenas;
  memory::ArenaThreads threads;
  std::vector<control::Member> members;
  control::Shared shared;
  mutable std::mutex mutex;
  std::vector<LocalJob*> jobs;
  std::map<std::uint64_t, std::vector<int>> communicators;
  std::map<std::pair<std::uint64_t, int>, recorder::Record*> records;
  std::set<std::pair<int, int>> lanes;
  int compared = 0;
  std::vector<Error> told;

  ~State() {
    if (base != nullptr) ::munmap(base, layout.bytes());
  }
  void tell(int rank, control::Event event);
};

class LocalJob final : public control::Job {
 public:
  LocalJob(std::shared_ptr<LocalJobs::State> state, int rank) : state_(std::move(state)), rank_(rank) {
    watcher_ = std::thread([this] { run_watcher(); });
  }
  ~LocalJob() override {
    {
      const std::lock_guard held(state_->mutex);
      state_->jobs[std::size_t(rank_)] = nullptr;
      state_->arenas[std::size_t(rank_)].inbox(rank_).state.store(memory::RankState::left);
    }
    {
      const std::lock_guard held(watch_mutex_);
      ending_ = true;
    }
    watch_changed_.notify_all();
    watcher_.join();
  }

  int rank() const override { return rank_; }
  int size() const override { return int(state_->members.size()); }
  const control::Shared& shared() const override { return state_->shared; }
  const std::vector<control::Member>& members() const override { return state_->members; }
  const memory::Arena& arena() const override { return state_->arenas[std::size_t(rank_)]; }
  int wake_descriptor() const override { return state_->wake_numbers[std::size_t(rank_)]; }

  std::vector<control::Event> take_events() override {
    const std::lock_guard held(events_mutex_);
    news.store(false, std::memory_order_relaxed);
    return std::exchange(events_, {});
  }
  void add_event(control::Event event) {
    {
      const std::lock_guard held(events_mutex_);
      events_.push_back(std::move(event));
      news.store(true, std::memory_order_release);
    }
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(wake_descriptor(), &one, sizeof one);
  }

  void request_lane(int peer) override {
    const std::lock_guard held(state_->mutex);
    if (!state_->lanes.insert(std::minmax(rank_, peer)).second) return;
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
      throw std::runtime_error("socketpair");
    for (const auto& [to, from, end] : {std::tuple{rank_, peer, ends[0]}, std::tuple{peer, rank_, ends[1]}}) {
      control::Event event;
      event.kind = control::Event::Kind::lane;
      event.peer = from;
      event.rails.emplace_back(end);
      state_->tell(to, std::move(event));
    }
  }

  // All are of one process, whose regions need no passing.
  void request_region(int peer, std::uint64_t region) override {
    control::Event event;
    event.kind = control::Event::Kind::region;
    event.peer = peer;
    event.region = region;
    event.memory = memory::pass_region(region);
    add_event(std::move(event));
  }

  void add_communicator(std::uint64_t id, std::vector<int> ranks, recorder::Record* record) override {
    const std::lock_guard held(state_->mutex);
    state_->communicators[id] = std::move(ranks);
    state_->records[{id, rank_}] = record;
  }
  void remove_communicator(std::uint64_t id) override {
    const std::lock_guard held(state_->mutex);
    state_->records.erase({id, rank_});
  }
  void compare_calls(std::uint64_t id, std::uint32_t sequence, int) override {
    const std::lock_guard held(state_->mutex);
    ++state_->compared;
    std::map<std::uint64_t, std::string> calls;
    for (const int rank : state_->communicators[id]) {
      const auto its = state_->records.find({id, rank});
      if (its == state_->records.end()) continue;
      if (const auto record = (*its->second)->ledger.find(sequence)) {
        calls[recorder::digest_of(*record)] += text("rank ", rank, " called ", record->describe(), "; ");
      }
    }
    if (calls.size() < 2) return;
    std::string both;
    for (const auto& [digest, call] : calls) both += call;
    for (const int rank : state_->communicators[id]) {
      control::Event event;
      event.kind = control::Event::Kind::failed;
      event.communicator = id;
      event.error = Error(ANELLO_ERR_MISMATCH, both);
      state_->tell(rank, std::move(event));
    }
  }
  void fail_communicator(std::uint64_t id, const Error& cause) override {
    const std::lock_guard held(state_->mutex);
    state_->told.push_back(cause);
    for (const int rank : state_->communicators[id]) {
      if (rank == rank_) continue;
      control::Event event;
      event.kind = control::Event::Kind::failed;
      event.communicator = id;
      event.error = cause;
      state_->tell(rank, std::move(event));
    }
  }

  void watch(int descriptor, std::function<void()> readable) override {
    {
      const std::lock_guard held(watch_mutex_);
      watched_ = descriptor;
      readable_ = std::move(readable);
    }
    watch_changed_.notify_all();
  }
  void unwatch() override {
    std::unique_lock held(watch_mutex_);
    watched_ = -1;
    readable_ = nullptr;
    watch_changed_.wait(held, [this] { return !calling_; });
  }

 private:
  void run_watcher() {
    std::unique_lock held(watch_mutex_);
    while (!ending_) {
      if (watched_ < 0) {
        watch_changed_.wait(held);
        continue;
      }
      pollfd look{watched_, POLLIN, 0};
      held.unlock();
      const int ready = ::poll(&look, 1, 5);
      held.lock();
      if (ready <= 0 || watched_ != look.fd || readable_ == nullptr) continue;
      const auto call = std::exchange(readable_, nullptr);
      watched_ = -1;
      calling_ = true;
      held.unlock();
      call();
      held.lock();
      calling_ = false;
      watch_changed_.notify_all();
    }
  }

  std::shared_ptr<LocalJobs::State> state_;
  const int rank_;
  std::mutex events_mutex_;
  std::vector<control::Event> events_;
  std::mutex watch_mutex_;
  std::condition_variable watch_changed_;
  int watched_ = -1;
  bool calling_ = false;
  bool ending_ = false;
  std::function<void()> readable_;
  std::thread watcher_;
};

void LocalJobs::request_region(int rank, int peer, std::uint64_t region) {
  control::Job* job = nullptr;
  {
    const std::lock_guard held(state_->mutex);
    job = state_->jobs[std::size_t(rank)];
  }
  if (job != nullptr) job->request_region(peer, region);
}

void LocalJobs::State::tell(int rank, control::Event event) {
  if (jobs[std::size_t(rank)] != nullptr) jobs[std::size_t(rank)]->add_event(std::move(event));
}

LocalJobs::LocalJobs(int ranks, std::uint32_t transport, control::Shared shared, Memory memory)
    : state_(std::make_shared<State>()) {
  State& state = *state_;
  state.shared = std::move(shared);
  state.layout.ranks = ranks;
  state.layout.ring_bytes = 64 * 1024;
  if (memory == Memory::file) {
    state.file = UniqueFd(::memfd_create("anello-test", MFD_CLOEXEC));
    const auto bytes = static_cast<off_t>(state.layout.bytes());
    if (!state.file || ::ftruncate(state.file.get(), bytes) != 0) throw std::runtime_error("memfd_create");
  }
  const int kind = MAP_SHARED | MAP_NORESERVE | (state.file ? 0 : MAP_ANONYMOUS);
  void* mapped = ::mmap(nullptr, state.layout.bytes(), PROT_READ | PROT_WRITE, kind, state.file.get(), 0);
  if (mapped == MAP_FAILED) throw std::runtime_error("mmap");
  state.base = static_cast<std::byte*>(mapped);
  auto* header = reinterpret_cast<memory::ArenaHeader*>(state.base);
  header->nonce = reinterpret_cast<std::uintptr_t>(state.base);
  header->ranks = std::uint32_t(ranks);
  header->ring_bytes = std::uint32_t(state.layout.ring_bytes);
  for (int rank = 0; rank < ranks; ++rank) {
    state.wake.emplace_back(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    state.wake_numbers.push_back(state.wake.back().get());
  }
  state.jobs.resize(std::size_t(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    state.arenas.emplace_back(state.base, state.layout, rank, state.file.get(), state.wake_numbers.data(),
                              &state.threads);
    state.arenas.back().inbox(rank).state.store(memory::RankState::alive);
    control::Member member;
    member.rank = rank;
    member.host = "here";
    member.pid = ::getpid();
    member.process = 1;
    member.machine = 1;
    member.local_index = rank;
    member.processors = control::Processors({3}, 0);
    member.transports = transport;
    state.members.push_back(member);
  }
}

LocalJobs::~LocalJobs() = default;

std::unique_ptr<control::Job> LocalJobs::take(int rank) {
  auto job = std::make_unique<LocalJob>(state_, rank);
  const std::lock_guard held(state_->mutex);
  state_->jobs[std::size_t(rank)] = job.get();
  return job;
}

const memory::Arena& LocalJobs::arena(int rank) const { return state_->arenas[std::size_t(rank)]; }

void LocalJobs::lose(int peer) {
  const std::lock_guard held(state_->mutex);
  for (int rank = 0; rank < int(state_->members.size()); ++rank) {
    if (rank == peer) continue;
    control::Event event;
    event.kind = control::Event::Kind::lost;
    event.peer = peer;
    event.error = Error(ANELLO_ERR_PEER_LOST, text("rank ", peer, " was killed"), peer);
    state_->tell(rank, std::move(event));
  }
}

void LocalJobs::leave(int peer) {
  const std::lock_guard held(state_->mutex);
  for (int rank = 0; rank < int(state_->members.size()); ++rank) {
    if (rank == peer) continue;
    control::Event event;
    event.kind = control::Event::Kind::left;
    event.peer = peer;
    state_->tell(rank, std::move(event));
  }
}

int LocalJobs::compared() const {
  const std::lock_guard held(state_->mutex);
  return state_->compared;
}

std::vector<Error> LocalJobs::told() const {
  const std::lock_guard held(state_->mutex);
  return state_->told;
}

}  // namespace anello::test
