#include "communicator/communicator.h"

#include "base/config.h"
#include "base/log.h"
#include "base/store_barrier.h"
#include "base/text.h"
#include "bootstrap/join.h"
#include "control/occupancy.h"
#include "schedule/tuning.h"
#include "transports/registry.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace anello {

namespace {

constexpr std::uint64_t kWholeJob = executor::Generations::id(0, 1);

// Exchanges on a board are numbered from here on. The lines of a fresh board contain 0, which is none of the first
// numbers.
std::uint32_t first_exchange(std::int64_t first_sequence) {
  const auto number = static_cast<std::uint32_t>(first_sequence + 1);
  return number == 0 || number > UINT32_MAX - memory::kBoardLines ? 1 : number;
}

memory::ReadPolicy::Wish wish_to_stage(const std::string& staging) {
  using Wish = memory::ReadPolicy::Wish;
  return staging == "never" ? Wish::never : staging == "always" ? Wish::always : Wish::by_time;
}

// All ranks read rank 0's table and so get the same result, including errors. Throws Error.
schedule::Wish wish_of(const control::Shared& shared, int rank) {
  schedule::Wish wish{shared.algorithm, static_cast<std::size_t>(std::max<std::int64_t>(0, shared.chunk_bytes))};
  const control::TuningFile& file = shared.tuning;
  static_assert(control::TuningFile::kMostBytes <= schedule::kMostTuningBytes);
  if (!file.problem.empty())
    throw Error(ANELLO_ERR_ARGUMENT, text("the tuning table ", file.path, " of rank 0 cannot be read: ", file.problem,
                                          "; ANELLO_TUNING=none uses no table"));
  if (file.path.empty()) return wish;
  auto tuning = std::make_shared<schedule::Tuning>(schedule::parse_tuning(file.text, file.path));
  if (tuning->machine != file.machine) {
    if (rank == 0)
      log::warn(rank, "the tuning table ", file.path, " was measured on another machine (", tuning->machine,
                "; this is ", file.machine, ") and is not used; anello-tune makes one for this machine");
    return wish;
  }
  if (rank == 0) log::info(rank, "choices as ", file.path, " has them, ", tuning->rules.size(), " rules");
  wish.tuning = std::move(tuning);
  return wish;
}

// What the transport has given out on each rank.
std::vector<std::string> addresses_of(const control::Job& job, const transport::Row& row) {
  const auto place = static_cast<std::size_t>(&row - transport::registry().data());
  std::vector<std::string> addresses;
  for (const control::Member& member : job.members())
    addresses.push_back(place < member.addresses.size() ? member.addresses[place] : std::string());
  return addresses;
}

}  // namespace

std::shared_ptr<Communicator> Communicator::create(const anello_config_t& config) {
  const Config& environment = Config::get();
  const schedule::Wish asked{environment.algorithm, 0};
  if (const std::string wrong = schedule::why_not(asked); !wrong.empty()) {
    throw Error(ANELLO_ERR_ARGUMENT, text("ANELLO_ALGORITHM=", environment.algorithm, ": ", wrong));
  }
  // This runs before there is a service thread: the kernel then has no other thread to wait for, which would take 7 ms.
  agrees_to_store_barriers();
  std::unique_ptr<control::Job> job = bootstrap::join(config);
  schedule::Wish wish = wish_of(job->shared(), job->rank());
  std::vector<executor::AvailableTransport> transports;
  std::uint32_t wanted = 0;
  for (const control::Member& member : job->members()) wanted |= member.transport();
  transport::Resources resources;
  resources.arena = job->arena();
  resources.congestion = environment.tcp_congestion;
  resources.ranks_per_processor = control::occupancy_of(job->members(), job->rank()).ranks_per_processor();
  resources.checksum = environment.checksum;
  resources.request_key = [&job = *job](int world, std::uint64_t key) { job.request_region(world, key); };
  for (const transport::Row& row : transport::registry()) {
    if ((wanted & row.bit()) == 0) continue;
    if (row.address != nullptr) resources.addresses = addresses_of(*job, row);
    transports.push_back({row.bit(), row.make(resources)});
  }
  std::vector<int> ranks(static_cast<std::size_t>(job->size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  const int board = share_arena(*job, ranks) && job->size() > 1 ? 0 : -1;
  const std::int64_t timeout_ms = config.timeout_ms > 0 ? config.timeout_ms : environment.timeout_ms;
  auto context = std::make_shared<executor::Context>(std::move(job), std::move(transports), environment.spin_us,
                                                     wish_to_stage(environment.staging));
  return std::shared_ptr<Communicator>(
      new Communicator(std::move(context), std::move(wish), kWholeJob, std::move(ranks), board, timeout_ms));
}

Communicator::Communicator(std::shared_ptr<executor::Context> context, schedule::Wish wish, std::uint64_t id,
                           std::vector<int> ranks, int board, std::int64_t timeout_ms)
    : context_(std::move(context)), timeout_ms_(timeout_ms), board_(board), wish_(std::move(wish)) {
  control::Job& job = context_->job();
  const std::vector<control::Member>& members = job.members();
  const control::Member& self = members[std::size_t(job.rank())];
  local_size_ = 0;
  std::map<std::string, int> ranks_on;
  std::map<std::string, control::Processors> processors_of;
  std::vector<int> local;
  for (const int world : ranks) {
    const control::Member& member = members[std::size_t(world)];
    if (member.host == self.host) {
      if (world == job.rank()) local_rank_ = local_size_;
      ++local_size_;
    }
    ++ranks_on[member.host];
    processors_of[member.host].join(member.processors);
    local.push_back(member.local_index);
  }
  topology_.size = static_cast<int>(ranks.size());
  std::map<std::uint64_t, int> machines;
  for (const int world : ranks) {
    const auto host = machines.try_emplace(members[std::size_t(world)].machine, int(machines.size())).first;
    topology_.host_of.push_back(host->second);
  }
  std::map<std::pair<std::string, control::Processors::Words>, int> processors;
  for (const int world : ranks) {
    const control::Member& member = members[std::size_t(world)];
    const auto known = processors.try_emplace({member.host, member.processors.allowed()}, int(processors.size())).first;
    topology_.processors_of.push_back(known->second);
  }
  if (processors.size() == 1 || processors.size() == ranks.size()) topology_.processors_of.clear();
  topology_.board = board >= 0;
  topology_.board_bytes = board >= 0 ? executor::Board::capacity() : 0;
  topology_.network = board < 0 && topology_.size > 1;
  topology_.oversubscribed = std::any_of(ranks_on.begin(), ranks_on.end(), [&](const auto& host) {
    return host.second > processors_of[host.first].count();
  });
  std::uint32_t transports = 0;
  for (const int world : ranks) transports |= members[std::size_t(world)].transport();
  for (const transport::Row& row : transport::registry()) {
    if ((transports & row.bit()) != 0) transports_ += text(transports_.empty() ? "" : ",", row.name);
  }
  if (transports_.empty()) transports_ = "self";
  const auto me = static_cast<int>(std::find(ranks.begin(), ranks.end(), job.rank()) - ranks.begin());
  executor::Board lines;
  if (board >= 0) {
    lines = executor::Board(job.arena(), board, std::move(local), me, first_exchange(job.shared().first_sequence),
                            control::share_processors(members, ranks));
  }
  group_ = context_->add_group(id, std::move(ranks), std::move(lines),
                               static_cast<std::uint32_t>(job.shared().first_sequence));
  topology_.staging_bytes = board >= 0 && !group_->by_address ? schedule::usual_staging_bytes(group_->size()) : 0;
}

Communicator::~Communicator() { destroy(); }

Error Communicator::destroy() {
  Error first;
  std::call_once(destroyed_, [&] {
    first = context_->remove_group(*group_);
    {
      const auto held = context_->lock();
      if (last_.operation != nullptr) context_->operations().give_back(std::exchange(last_.operation, nullptr));
    }
    give_back_board();
  });
  return first;
}

Error Communicator::first_error() {
  const auto held = context_->lock();
  return group_->error;
}

Error Communicator::newest_error() { return context_->newest_error(*group_); }

std::vector<int> Communicator::lost_ranks() { return context_->lost_ranks(*group_); }

std::vector<int> Communicator::suspected_ranks() { return context_->suspected_ranks(*group_); }

const control::Member& Communicator::member(int rank) const {
  return context_->job().members()[std::size_t(group_->ranks[std::size_t(rank)])];
}

const char* Communicator::transport_to(int peer) const {
  for (const transport::Row& row : transport::registry()) {
    if (member(peer).transport() == row.bit()) return row.name.data();  // of a literal
  }
  return "self";
}

std::size_t Communicator::most_eager(int peer) {
  const auto held = context_->lock();
  return context_->gets().most_eager(*group_, peer);
}

executor::TakenMessages Communicator::taken_messages() {
  const auto held = context_->lock();
  return group_->taken;
}

void Communicator::abort(const std::string& reason) {
  const std::string who = context_->job().describe(context_->rank());
  context_->abort(*group_, Error(ANELLO_ERR_ABORTED,
                                 reason.empty() ? text(who, " aborted the communicator")
                                                : text(who, " aborted the communicator: ", reason),
                                 context_->rank()));
}

}  // namespace anello
