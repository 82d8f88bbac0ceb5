// Communicators that are made from others, and their boards.
#include "base/kind.h"
#include "base/text.h"
#include "communicator/communicator.h"
#include "communicator/split.h"

#include <algorithm>
#include <cstring>

namespace anello {
namespace {

using executor::Generations;

std::uint64_t mixed(std::uint64_t parent, std::uint64_t child, std::uint64_t color) {
  std::uint64_t mix = parent ^ (child << 32 | (color & 0xffffffffu));
  for (int round = 0; round < 2; ++round) {
    mix ^= mix >> 31;
    mix *= 0x9fb21c651e98df25ull;
    mix ^= mix >> 28;
  }
  return mix;
}

// The id of a communicator whose ranks brought at most that generation; the other bits distinguish it from others of
// that generation.
std::uint64_t child_id(std::uint32_t brought, std::uint64_t parent, std::uint64_t child, std::uint64_t color) {
  return Generations::id(Generations::above(brought), static_cast<std::uint32_t>(mixed(parent, child, color)));
}

// In addition to all values that split can give.
constexpr std::uint64_t kOfGroup = 0x9e3779b97f4a7c15ull;

}  // namespace

Brought::Brought(std::shared_ptr<executor::Context> context)
    : context_(std::move(context)), generation_(context_->begin_making()) {}

Brought::~Brought() { context_->end_making(generation_); }

// ---- Boards ----

int Communicator::allocate_board(int users) {
  const memory::Arena& arena = context_->job().arena();
  if (!arena) return -1;
  for (int board = 1; board < memory::kMaxBoards; ++board) {
    std::uint32_t none = 0;
    if (!arena.header().board_users[board].compare_exchange_strong(none, static_cast<std::uint32_t>(users))) continue;
    if (!arena.commit_board(board)) {
      arena.header().board_users[board].store(0);
      return -1;
    }
    // Data of an earlier communicator must not look like a line of this one.
    for (int member = 0; member < arena.ranks(); ++member) {
      for (memory::BoardLine& line : arena.board(board, member).line) line.number.store(0, std::memory_order_relaxed);
    }
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return board;
  }
  return -1;  // all in use: the communicator works without one
}

// The last rank frees the staging memory's pages while it still has the board: until then a rank may load from them.
void Communicator::give_back_board() {
  if (board_ < 0) return;
  const memory::Arena& arena = context_->job().arena();
  std::atomic<std::uint32_t>& users = arena.header().board_users[board_];
  for (std::uint32_t left = users.load(std::memory_order_acquire); left > 0;) {
    if (left == 1) memory::Staging::give_pages_back(arena, board_);
    if (users.compare_exchange_weak(left, left - 1, std::memory_order_acq_rel)) return;
  }
}

bool Communicator::share_arena(const control::Job& job, const std::vector<int>& world_ranks) {
  const std::vector<control::Member>& members = job.members();
  return std::all_of(world_ranks.begin(), world_ranks.end(), [&](int world) {
    const control::Member& member = members[std::size_t(world)];
    return member.local_index >= 0 && member.machine == members[std::size_t(world_ranks[0])].machine;
  });
}

std::shared_ptr<Communicator> Communicator::child(std::uint64_t id, std::vector<int> ranks, int board) {
  return std::shared_ptr<Communicator>(new Communicator(context_, wish_, id, std::move(ranks), board, timeout_ms_));
}

// ---- Split ----

std::unique_ptr<Split> Communicator::prepare_split(Seat seat, int record_kind) {
  auto split = std::make_unique<Split>();
  split->brought = std::make_unique<Brought>(context_);
  split->number = children_++;
  split->choices.resize(std::size_t(size()));
  // No rank knows yet which rank will be the first of a colour. The board counts all possible users, so that it is not
  // reused before the last one has reached it.
  const bool may_be_first = record_kind != recorder::kDupCall || rank() == 0;
  const bool joins = seat.color != ANELLO_UNDEFINED && size() > 1;
  // A failed communicator makes none: the board would stay reserved.
  const bool wants_board = joins && may_be_first && !first_error();
  split->reserved = wants_board ? allocate_board(size()) : -1;
  split->choices[std::size_t(rank())] = {seat.color, seat.key, split->reserved, split->brought->generation()};
  return split;
}

std::shared_ptr<Communicator> Communicator::split(Seat seat, int record_kind) {
  const std::unique_ptr<Split> split = prepare_split(seat, record_kind);
  if (const Error error = run(split->gather(), nullptr, record_kind)) throw error;
  return finish_split(*split);
}

std::unique_ptr<Split> Communicator::post_split(Seat seat, int record_kind) {
  std::unique_ptr<Split> split = prepare_split(seat, record_kind);
  split->operation = start(split->gather(), record_kind);
  context_->leave_to_background();
  return split;
}

// Frees the lines of a board that this rank has reserved and no rank reads yet, except those of its users, by world
// rank. Otherwise a job of many ranks that is split into pairs would keep a board of all ranks for each pair.
void Communicator::trim_board(int board, const std::vector<int>& users) {
  const memory::Arena& arena = context_->job().arena();
  if (users.empty()) return arena.release_board(board);
  std::vector<bool> used(std::size_t(arena.ranks()));
  for (const int world : users) used[std::size_t(context_->job().members()[std::size_t(world)].local_index)] = true;
  for (int rank = 0; rank < arena.ranks(); ++rank) {
    if (!used[std::size_t(rank)]) arena.release_board(board, rank);
  }
}

// A failed split keeps the boards reserved: other ranks may have finished it and use one.
std::shared_ptr<Communicator> Communicator::finish_split(Split& split) {
  const Seating seating = seating_of(split.choices, rank());
  std::uint32_t brought = 0;
  for (const Split::Choice& choice : split.choices) brought = std::max(brought, choice.generation);
  std::vector<int> ranks;
  for (const int peer : seating.ranks) ranks.push_back(group_->ranks[std::size_t(peer)]);

  const bool has_board = ranks.size() > 1 && share_arena(context_->job(), ranks);
  if (split.reserved >= 0) {
    std::atomic<std::uint32_t>& users = context_->job().arena().header().board_users[split.reserved];
    const bool used = has_board && seating.ranks[0] == rank();
    trim_board(split.reserved, used ? ranks : std::vector<int>{});
    users.fetch_sub(static_cast<std::uint32_t>(size() - (used ? int(ranks.size()) : 0)), std::memory_order_acq_rel);
  }
  if (ranks.empty()) return nullptr;
  const auto color = static_cast<std::uint64_t>(std::int64_t{split.choices[std::size_t(rank())].color});
  return child(child_id(brought, group_->id, split.number, color), std::move(ranks), has_board ? seating.board : -1);
}

int Communicator::color_of_host() const {
  int lowest = 0;
  while (member(lowest).host != member(rank()).host) ++lowest;
  return lowest;
}

// ---- Groups ----

namespace {

// A member's message to the first member.
struct Application {
  std::uint64_t list;        // a digest
  std::uint64_t generation;  // that it proposes
};

std::uint64_t digest_of(const std::vector<int>& members) {
  std::uint64_t digest = members.size();
  for (const int member : members) digest = mixed(digest, std::uint64_t(member) + 1, 0);
  return digest;
}

template <class Body>
anello_call_t message(anello_kind_t kind, int peer, int tag, Body& body) {
  anello_call_t call = ANELLO_CALL_INITIALIZER;
  call.kind = kind;
  call.peer = peer;
  call.tag = executor::kInternalTags | tag;
  call.dtype = ANELLO_BYTE;
  call.count = sizeof body;
  call.sendbuf = call.recvbuf = &body;
  return call;
}

}  // namespace

std::shared_ptr<Communicator> Communicator::create_group(const std::vector<int>& members, int tag) {
  std::vector<int> ranks;
  for (const int member : members) ranks.push_back(group_->ranks[std::size_t(member)]);
  const auto pass = [&](const anello_call_t& call) {
    if (const Error error = run(call, nullptr)) throw error;
  };
  const int first = members[0];
  const Brought own(context_);
  Application application{digest_of(members), own.generation()};
  GroupAdmission admission{0, -1, -1};
  const bool shares_memory = ranks.size() > 1 && share_arena(context_->job(), ranks);
  if (rank() == first) {
    std::uint64_t brought = application.generation;
    for (const int member : members) {
      Application other{};
      if (member == first) continue;
      pass(message(ANELLO_RECV, member, tag, other));
      if (other.list != application.list) admission.differing = member;
      brought = std::max(brought, other.generation);
    }
    if (admission.differing < 0) {
      admission.id = child_id(static_cast<std::uint32_t>(std::min<std::uint64_t>(brought, UINT32_MAX)),
                              group_->id ^ kOfGroup, groups_++, static_cast<std::uint64_t>(rank()));
      if (shares_memory) admission.board = allocate_board(int(ranks.size()));
    }
    for (const int member : members) {
      if (member != first) pass(message(ANELLO_SEND, member, tag, admission));
    }
  } else {
    pass(message(ANELLO_SEND, first, tag, application));
    pass(message(ANELLO_RECV, first, tag, admission));
  }
  check_admission(admission, members, shares_memory, tag);
  return child(admission.id, std::move(ranks), admission.board);
}

}  // namespace anello
