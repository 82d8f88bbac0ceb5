#include "weak_memory/explored_arena.h"

#include "base/bell.h"
#include "base/store_barrier.h"

#include <algorithm>
#include <cstddef>
#include <new>
#include <map>

#include <sys/mman.h>

namespace anello {

// In place of those of base, which ask the kernel.
namespace {
bool agreed_now = false;
}

bool agrees_to_store_barriers() { return agreed_now; }
void store_barrier() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (agreed_now) weak_memory::Explorer::running()->barrier();
}
void store_barrier_for_sure() { store_barrier(); }
void own_store_barrier() { store_barrier(); }

}  // namespace anello

namespace anello::weak_memory {

ExploredArena::ExploredArena(int ranks, std::size_t ring_bytes) : layout_{ranks, ring_bytes} {
  void* const mapped =
      ::mmap(nullptr, layout_.bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  base_ = static_cast<std::byte*>(mapped);
  for (int rank = 0; rank < ranks; ++rank) bells_.push_back(kFirstBell - rank);
}

ExploredArena::~ExploredArena() { ::munmap(base_, layout_.bytes()); }

memory::Arena ExploredArena::of(int rank, bool agreed) const {
  agreed_now = agreed;
  const memory::Arena arena{base_, layout_, rank, -1, bells_.data(), nullptr};
  for (int each = 0; each < layout_.ranks; ++each) arena.inbox(each).barriers.store(agreed ? 1 : 0);
  return arena;
}

const char* ExploredArena::field(std::uintptr_t address) const {
  using namespace memory;
  const std::size_t at = address - reinterpret_cast<std::uintptr_t>(base_);
  if (at >= layout_.bytes()) return "elsewhere";
  if (at >= layout_.rings()) {
    const std::size_t in_ring = (at - layout_.rings()) % layout_.ring_stride();
    if (in_ring == offsetof(RingControl, tail)) return "tail";
    if (in_ring == offsetof(RingControl, head)) return "head";
    if (in_ring == offsetof(RingControl, sender_waits)) return "sender_waits";
    return in_ring % kLine == 0 ? "stamp" : "ring";
  }
  if (at >= layout_.boards()) {
    const std::size_t in_slots = (at - layout_.boards()) % layout_.board_stride() % sizeof(BoardSlots);
    constexpr std::size_t kTouch = offsetof(BoardSlots, touch);
    if (in_slots < kTouch) return in_slots % kLine == offsetof(BoardLine, number) ? "number" : "line";
    if (in_slots == kTouch + offsetof(BoardTouch, touching)) return "touching";
    if (in_slots == kTouch + offsetof(BoardTouch, stopped)) return "stopped";
    if (in_slots == kTouch + offsetof(BoardTouch, allows_no_gets)) return "allows_no_gets";
    if (in_slots == kTouch + offsetof(BoardTouch, failed_id)) return "failed_id";
    if (in_slots == kTouch + offsetof(BoardTouch, failed_first_hand)) return "failed_first_hand";
    if (in_slots == kTouch + offsetof(BoardTouch, failed)) return "failed";
    return in_slots == offsetof(BoardSlots, asleep_for) ? "asleep_for" : "board payload";
  }
  if (at < layout_.inboxes()) return "header";
  const std::size_t in_inbox = (at - layout_.inboxes()) % sizeof(Inbox);
  if (in_inbox == offsetof(Inbox, sleeping)) return "sleeping";
  return in_inbox == offsetof(Inbox, first_use) ? "first_use" : "inbox";
}

void ExploredArena::sleep(const memory::Arena& arena, memory::Sleeper* sleeper, const std::function<bool()>& is_there) {
  sleeper->announce(arena);
  if (!is_there()) Explorer::running()->wait_for(arena.index());
  sleeper->take_back(arena);
  silence(kFirstBell - arena.index());
}

OrderCheck::Found OrderCheck::run() const {
  Found found;
  std::map<Place, std::vector<const Named*>> places;
  for (const Named& each : programs_) {
    Explorer explorer;
    const Outcome outcome = each.explore(&explorer);
    found.executions += outcome.executions + outcome.cut;
    for (const Place& place : outcome.places) places[place].push_back(&each);
    if (!outcome.failure.empty()) found.failure += each.name + ": " + outcome.failure + "\n";
    if (!outcome.is_complete && outcome.failure.empty()) found.failure += each.name + ": has too many executions\n";
  }
  if (!found.failure.empty()) return found;
  for (const auto& each_place : places) {
    const Place& place = each_place.first;
    const std::vector<const Named*>& programs = each_place.second;
    if (place.order == Order::relaxed) continue;
    if (std::find(left_out_.begin(), left_out_.end(), in_words(place)) != left_out_.end()) continue;
    const bool is_needed = std::any_of(programs.begin(), programs.end(), [&](const Named* each) {
      Explorer explorer;
      explorer.weaken(place);
      const Outcome outcome = each->explore(&explorer);
      found.executions += outcome.executions + outcome.cut;
      return !outcome.failure.empty();
    });
    (is_needed ? found.needed : found.not_needed).push_back(in_words(place));
  }
  return found;
}

}  // namespace anello::weak_memory
