#include "transports/verbs/transfers.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <sched.h>

namespace anello::transport {
namespace {

// Adapters try again for a few seconds at most. Where none of the pieces under way ends in this time, none will: the
// refusal of memory that its owner has freed can be lost (rxe of Linux 6.1).
constexpr std::int64_t kSilentNs = 10'000'000'000;

// The name of registered memory: its length in pages, so that no transfer goes beyond, and the first adapter's key.
constexpr std::size_t kPage = 4096;
constexpr std::uint64_t name_of(std::size_t bytes, std::uint32_t remote_key) {
  return std::uint64_t{(bytes + kPage - 1) / kPage} << 32 | remote_key;
}
constexpr std::uint64_t bytes_of(std::uint64_t name) { return (name >> 32) * kPage; }

}  // namespace

VerbsTransfers::VerbsTransfers(int peer, const std::vector<Port>& ports) : peer_(peer) {
  for (const Port& each : ports) {
    rails_.push_back(std::make_unique<VerbsTransferRail>(each.port, *each.registrations));
    if (rails_.back()->is_over())
      log::info(-1, "messages to and from rank ", peer_, " do without ", each.port->name(), ": ", rails_.back()->why());
  }
}

// ---- Rails ----

VerbsTransferRail* VerbsTransfers::find(const VerbsPort& port) const {
  const auto found =
      std::find_if(rails_.begin(), rails_.end(), [&](const auto& each) { return &each->port() == &port; });
  return found == rails_.end() ? nullptr : found->get();
}

bool VerbsTransfers::is_open() const {
  return std::any_of(rails_.begin(), rails_.end(), [](const auto& each) { return each->is_open(); });
}

bool VerbsTransfers::is_over() const {
  return std::all_of(rails_.begin(), rails_.end(), [](const auto& each) { return each->is_over(); });
}

VerbsPairName VerbsTransfers::offer(VerbsTransferRail& rail) {
  if (rail.was_offered()) lose(rail, "their port was lost");
  return rail.offer();
}

void VerbsTransfers::connect(VerbsTransferRail& rail, std::size_t partner, const PortAddress& port,
                             const VerbsPairName& peer) {
  const std::string why_not = rail.connect(partner, port, peer);
  if (!why_not.empty()) lose(rail, why_not);
}

void VerbsTransfers::look_for_joining() {
  if (std::any_of(rails_.begin(), rails_.end(), [](const auto& each) { return each->is_joining(); })) poll();
}

// A late packet of a put that has been given up could overwrite what its owner stores there next, so puts end.
void VerbsTransfers::lose(VerbsTransferRail& rail, const std::string& why) {
  if (rail.is_over()) return;
  const std::vector<VerbsTransferRail::Part> parts = rail.end(why);
  if (is_over()) {
    log::info(-1, "messages to and from rank ", peer_, " are copied from now on: ", why);
  } else {
    log::info(-1, "messages to and from rank ", peer_, " go on without ", rail.port().name(), ": ", why);
  }
  for (const VerbsTransferRail::Part& part : parts) {
    Moving& moving = *find(part.token);
    --moving.parts;
    if (moving.puts) moving.error = ECONNABORTED;
    moving.rest.push_back({std::size_t(part.local - moving.whole.local), part.bytes});
  }
  for (std::size_t i = moving_.size(); i-- > 0;) {
    Moving& moving = moving_[i];
    if (!moving.rest.empty() && count_serving(moving) == 0) moving.error = ECONNABORTED;
    end_if_done(moving_.begin() + std::ptrdiff_t(i));
  }
  post_parts();
}

// ---- This rank's memory ----

RemoteAddress VerbsTransfers::give_out(const memory::Buffer& buffer, VerbsAccess access,
                                       std::shared_ptr<const void>* kept) {
  if (is_over()) return {};
  const auto all = std::make_shared<std::array<VerbsRegistrations::Held, kMostRails>>();
  const VerbsRegistrations::Held first = rails_.front()->registrations().of(buffer, access);
  if (first == nullptr) return {};
  (*all)[0] = first;
  MemoryKeys keys{name_of(first->bytes(), first->remote_key()), {first->remote_key()}};
  for (std::size_t i = 1; i < rails_.size(); ++i) {
    if (rails_[i]->is_over()) continue;
    (*all)[i] = rails_[i]->registrations().of(buffer, access);
    if ((*all)[i] != nullptr) keys.of_port[i] = (*all)[i]->remote_key();
  }
  if (rails_.size() > 1 && mine_.note(keys)) untold_.push_back(keys);
  *kept = all;
  const auto at = reinterpret_cast<std::uintptr_t>(buffer.at);
  return {at, keys.name, at - first->begin()};
}

// ---- Transfers ----

// Whether the rail can move it.
bool VerbsTransfers::serves(std::size_t rail, Moving& moving) {
  VerbsTransferRail& each = *rails_[rail];
  if (!each.is_open() || theirs_.find(moving.whole.at.key, each.partner()) == 0) return false;
  if (moving.local[rail] == nullptr) {
    const Transfer& whole = moving.whole;
    memory::Buffer buffer{whole.local, whole.bytes, whole.space, {}};
    if (whole.space == memory::Space{}) buffer.spot = memory::find_region(whole.local, whole.bytes);
    // What an adapter of iWARP reads, it stores by a key that the peer knows.
    const bool is_stored = each.port().is_iwarp() && !moving.puts;
    moving.local[rail] =
        each.registrations().of(buffer, is_stored ? VerbsAccess::peers_store : VerbsAccess::peers_load);
  }
  return moving.local[rail] != nullptr;
}

std::size_t VerbsTransfers::count_serving(Moving& moving) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < rails_.size(); ++i) count += serves(i, moving) ? 1 : 0;
  return count;
}

int VerbsTransfers::why_not(Moving& moving) {
  if (!is_open()) return ECONNABORTED;
  const Transfer& whole = moving.whole;
  const std::uint64_t room = bytes_of(whole.at.key);
  if (whole.at.offset > room || whole.bytes > room - whole.at.offset) return EFAULT;
  return whole.bytes > 0 && count_serving(moving) == 0 ? ENOTSUP : 0;
}

void VerbsTransfers::begin(const Transfer& transfer, bool puts) {
  Moving moving{transfer, puts, {{0, transfer.bytes}}, {}};
  const int error = why_not(moving);
  if (error != 0 || transfer.bytes == 0) {
    ended_.push_back({transfer.token, error});
    return;
  }
  moving_.push_back(std::move(moving));
  post_parts();
}

void VerbsTransfers::post_parts() {
  for (std::size_t i = 0; i < moving_.size();) {
    const Token token = moving_[i].whole.token;
    if (moving_[i].error == 0 && !moving_[i].rest.empty()) {
      if (!post_part(moving_[i])) return;
      // A rail that fails may have ended some of them.
      if (i >= moving_.size() || moving_[i].whole.token != token) i = 0;
    } else {
      ++i;
    }
  }
}

// False: there is no room for more.
bool VerbsTransfers::post_part(Moving& moving) {
  VerbsTransferRail* best = nullptr;
  std::size_t best_at = 0, serving = 0;
  for (std::size_t i = 0; i < rails_.size(); ++i) {
    if (!serves(i, moving)) continue;
    ++serving;
    VerbsTransferRail& rail = *rails_[i];
    if (rail.room() == 0 || (best != nullptr && rail.under_way() >= best->under_way())) continue;
    best = &rail;
    best_at = i;
  }
  if (best == nullptr) return false;
  const Transfer& whole = moving.whole;
  Range& range = moving.rest.back();
  const std::size_t share = std::max((whole.bytes + serving - 1) / serving, kLeastPart);
  const std::size_t bytes = std::min({range.bytes, share, best->room()});
  const VerbsTransferRail::Part part{whole.token,
                                     moving.puts,
                                     whole.local + range.offset,
                                     moving.local[best_at]->local_key(),
                                     whole.at.address + range.offset,
                                     theirs_.find(whole.at.key, best->partner()),
                                     bytes};
  range.offset += bytes;
  range.bytes -= bytes;
  if (range.bytes == 0) moving.rest.pop_back();
  ++moving.parts;
  const std::string failed = best->post(part);
  if (!failed.empty()) lose(*best, failed);
  return true;
}

void VerbsTransfers::progress() {
  if (moving_.empty()) return;
  poll();
  post_parts();
  for (const auto& rail : rails_) {
    if (rail->under_way() > 0 && now_ns() - rail->moved_ns() > kSilentNs) lose(*rail, "no piece has ended for 10 s");
  }
}

void VerbsTransfers::poll() {
  std::vector<VerbsTransferRail::Part> parts;
  for (const auto& rail : rails_) {
    bool refused = false;
    const std::string failed = rail->poll(&parts, &refused);
    for (const VerbsTransferRail::Part& part : parts) ended(part);
    parts.clear();
    if (failed.empty()) continue;
    if (refused) return give_up(failed);
    lose(*rail, failed);
  }
}

void VerbsTransfers::ended(const VerbsTransferRail::Part& part) {
  const auto moving = find(part.token);
  --moving->parts;
  end_if_done(moving);
}

void VerbsTransfers::end_if_done(std::deque<Moving>::iterator moving) {
  if (moving->error != 0) moving->rest.clear();
  if (moving->parts > 0 || !moving->rest.empty()) return;
  for (const VerbsRegistrations::Held& local : moving->local) {
    if (moving->error == 0 && !moving->puts && local != nullptr) moving->error = local->stores_are_seen();
  }
  ended_.push_back({moving->whole.token, moving->error});
  moving_.erase(moving);
}

std::deque<VerbsTransfers::Moving>::iterator VerbsTransfers::find(Token token) {
  return std::find_if(moving_.begin(), moving_.end(),
                      [token](const Moving& each) { return each.whole.token == token; });
}

std::optional<Transferred> VerbsTransfers::take_ended() {
  if (ended_.empty()) return std::nullopt;
  const Transferred first = ended_.front();
  ended_.pop_front();
  return first;
}

void VerbsTransfers::withdraw(Token token) {
  if (const auto moving = find(token); moving != moving_.end()) {
    moving->error = ECANCELED;
    end_if_done(moving);
    const std::int64_t begun_ns = now_ns();
    for (poll(); find(token) != moving_.end(); poll()) {
      std::int64_t moved_ns = begun_ns;
      for (const auto& rail : rails_) moved_ns = std::max(moved_ns, rail->moved_ns());
      const std::int64_t limit_ns = std::int64_t{1'000'000} * rails_.front()->port().settings().withdraw_ms;
      if (now_ns() - moved_ns > limit_ns) give_up("a transfer that is not wanted does not end");
      ::sched_yield();
    }
    post_parts();
  }
  std::erase_if(ended_, [token](const Transferred& each) { return each.token == token; });
}

// ---- The end ----

void VerbsTransfers::give_up(const std::string& why) {
  if (is_over()) return;
  log::info(-1, "messages to and from rank ", peer_, " are copied from now on: ", why);
  for (const auto& rail : rails_) rail->end(why);
  for (const Moving& each : moving_) ended_.push_back({each.whole.token, ECONNABORTED});
  moving_.clear();
}

// ---- Sleeping, and figures ----

void VerbsTransfers::arm() {
  for (const auto& rail : rails_) rail->arm();
}

VerbsCounts VerbsTransfers::counts() const {
  VerbsCounts all;
  for (const auto& rail : rails_) all += rail->counts();
  return all;
}

std::uint64_t VerbsTransfers::batches() const {
  std::uint64_t all = 0;
  for (const auto& rail : rails_) all += rail->batches();
  return all;
}

}  // namespace anello::transport
