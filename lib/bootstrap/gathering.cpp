#include "bootstrap/gathering.h"

#include "base/log.h"
#include "base/text.h"
#include "control/descriptor_passing.h"
#include "control/host.h"
#include "memory/process_memory.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <set>

#include <fcntl.h>
#include <unistd.h>

namespace anello::bootstrap {
namespace {

using namespace control;

constexpr std::byte kPassed{'p'}, kMappedMark{'m'};

// Sent before the descriptors: memory, wake-ups, deaths.
struct Offer {
  std::uint64_t nonce;
  std::uint32_t ranks;
  std::uint32_t ring_bytes;
  std::uint32_t index;
  std::uint32_t wakes;   // ranks, or 0: another rank of the same process has all of them
  std::uint32_t deaths;  // each with its process, in the following numbers
  std::uint32_t zero;
};

template <class T>
std::span<std::byte> raw(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

UniqueFd copy_of(int fd) {
  UniqueFd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!copy) throw Error(ANELLO_ERR_RESOURCE, system_text("fcntl(F_DUPFD_CLOEXEC)", errno));
  return copy;
}

Task<> pass(std::shared_ptr<Stream> stream, std::vector<int> descriptors) {
  for (std::size_t i = 0; i < descriptors.size(); i += kMaxPassed) {
    const std::span<const int> batch(descriptors.data() + i, std::min(kMaxPassed, descriptors.size() - i));
    co_await stream->write_descriptors(kPassed, batch);
  }
}

Task<std::vector<UniqueFd>> receive_passed(std::shared_ptr<Stream> stream, std::size_t count) {
  std::vector<UniqueFd> descriptors;
  while (descriptors.size() < count) {
    const std::size_t before = descriptors.size();
    const std::byte mark = co_await stream->read_descriptors(descriptors);
    if (mark != kPassed || descriptors.size() == before || descriptors.size() > count) throw Reader::corrupt();
  }
  co_return descriptors;
}

Task<> hand_over(std::shared_ptr<Stream> stream, std::shared_ptr<LocalGroup> group, int index, bool whole) {
  Offer offer{group->nonce(),
              static_cast<std::uint32_t>(group->layout().ranks),
              static_cast<std::uint32_t>(group->layout().ring_bytes),
              static_cast<std::uint32_t>(index),
              whole ? static_cast<std::uint32_t>(group->wake().size()) : 0,
              whole ? static_cast<std::uint32_t>(group->deaths().size()) : 0,
              0};
  co_await stream->write(raw(offer));
  if (whole) {
    std::vector<std::uint64_t> processes;
    std::vector<int> descriptors{group->memory()};
    descriptors.insert(descriptors.end(), group->wake().begin(), group->wake().end());
    for (const Death& death : group->deaths()) {
      processes.push_back(death.process);
      descriptors.push_back(death.descriptor.get());
    }
    co_await stream->write(std::as_bytes(std::span(processes)));
    co_await pass(stream, std::move(descriptors));
  }
  std::byte answer{};
  co_await stream->read({&answer, 1});
}

ArenaSeat sit(std::shared_ptr<LocalGroup> group, int index) {
  memory::Inbox& inbox = group->arena(index).inbox(index);
  group->here.set(std::size_t(index));
  inbox.sample = memory::own_sample();
  inbox.barriers.store(agrees_to_store_barriers() ? 1 : 0, std::memory_order_relaxed);
  inbox.state.store(memory::RankState::alive, std::memory_order_release);
  return {std::move(group), index};
}

}  // namespace

void GatheringLeader::enter(Visitor visitor) {
  service_.spawn("arena", receive(shared_from_this(), std::move(visitor)));
}

Task<> GatheringLeader::receive(std::shared_ptr<GatheringLeader> self, Visitor visitor) {
  const std::shared_ptr<Stream> stream = visitor.stream;
  const int from = visitor.from;
  require_same_user(stream->descriptor());
  Guest guest;
  guest.stream = stream;
  {
    const TimeLimit limit(stream, 10'000);
    co_await stream->read(raw(guest.process));
    std::vector<UniqueFd> passed = co_await receive_passed(stream, 1);
    guest.wake = std::move(passed.front());
  }
  guest.death = peer_death_descriptor(stream->descriptor());
  self->guests_[from] = std::move(guest);
  self->changed_.notify();
}

Task<ArenaSeat> GatheringLeader::form(std::shared_ptr<GatheringLeader> self, std::shared_ptr<Agent> agent,
                                      std::vector<int> ranks, std::uint64_t own_process, Deadline deadline) {
  const auto all_here = [&] {
    return std::all_of(ranks.begin() + 1, ranks.end(), [&](int rank) { return self->guests_.contains(rank); });
  };
  while (!all_here()) {
    if (deadline.passed())
      throw Error(ANELLO_ERR_TIMEOUT, "ranks of this host did not connect to get their shared memory");
    co_await self->changed_.wait(std::min<std::int64_t>(deadline.left_ms() + 1, 100));
  }
  std::vector<UniqueFd> wake;
  wake.push_back(copy_of(agent->mailbox().wake_descriptor()));
  std::vector<Death> deaths;
  deaths.push_back({own_process, own_death_descriptor()});
  std::set<std::uint64_t> served{own_process};
  for (std::size_t i = 1; i < ranks.size(); ++i) {
    Guest& guest = self->guests_.at(ranks[i]);
    wake.push_back(std::move(guest.wake));
    if (served.insert(guest.process).second) deaths.push_back({guest.process, std::move(guest.death)});
  }
  // If the kernel has no process descriptors, ranks detect deaths by their connections.
  std::erase_if(deaths, [](const Death& death) { return !death.descriptor; });
  std::shared_ptr<LocalGroup> group =
      LocalGroup::make(static_cast<int>(ranks.size()), std::move(wake), std::move(deaths));
  served = {own_process};
  for (std::size_t i = 1; i < ranks.size(); ++i) {
    Guest& guest = self->guests_.at(ranks[i]);
    const bool first_of_process = served.insert(guest.process).second;
    const TimeLimit limit(guest.stream, deadline.left_ms() + 1);
    try {
      co_await hand_over(guest.stream, group, static_cast<int>(i), first_of_process);
    } catch (const Error& error) {
      // That rank tells the meeting place itself, or has died, which the meeting place sees.
      log::debug(agent->rank(), "rank ", ranks[i], " did not take the shared memory: ", error.text());
    }
  }
  self->guests_.clear();
  co_return sit(std::move(group), 0);
}

Task<std::shared_ptr<Stream>> arrive(std::shared_ptr<Agent> agent, int leader, Address address, std::uint64_t process,
                                     Deadline deadline) {
  std::vector<Address> ways{address};
  Call call = agent->call_to(leader, Purpose::arena, std::move(ways), deadline);
  std::shared_ptr<Stream> stream = co_await dial(agent->service().io(), std::move(call));
  require_same_user(stream->descriptor());
  co_await stream->write(raw(process));
  std::vector<int> own{agent->mailbox().wake_descriptor()};
  co_await pass(stream, std::move(own));
  co_return stream;
}

Task<ArenaSeat> take_seat(std::shared_ptr<Stream> stream, Deadline deadline) {
  const TimeLimit limit(stream, deadline.left_ms() + 1);
  Offer offer{};
  co_await stream->read(raw(offer));
  const bool possible = offer.ranks >= 2 && offer.ranks <= memory::kMaxLocalRanks && offer.index < offer.ranks &&
                        std::has_single_bit(offer.ring_bytes) && offer.ring_bytes >= 4096 &&
                        offer.ring_bytes <= (1u << 26) && (offer.wakes == 0 || offer.wakes == offer.ranks) &&
                        offer.deaths <= offer.ranks;
  if (!possible) throw Reader::corrupt();
  std::shared_ptr<LocalGroup> group;
  if (offer.wakes == 0) {
    group = LocalGroup::find(offer.nonce);
    if (!group)
      throw Error(ANELLO_ERR_SYSTEM, "the rank of this process that received the shared memory no longer has it");
  } else {
    std::vector<std::uint64_t> processes(offer.deaths);
    co_await stream->read(std::as_writable_bytes(std::span(processes)));
    std::vector<UniqueFd> passed = co_await receive_passed(stream, 1 + offer.wakes + offer.deaths);
    std::vector<UniqueFd> wake;
    std::vector<Death> deaths;
    for (std::size_t i = 0; i < offer.wakes; ++i) wake.push_back(std::move(passed[1 + i]));
    for (std::size_t i = 0; i < offer.deaths; ++i)
      deaths.push_back({processes[i], std::move(passed[1 + offer.wakes + i])});
    // Every process makes and keeps one mapping for all of its ranks.
    group = LocalGroup::find(offer.nonce);
    if (!group) {
      group = LocalGroup::map(offer.nonce, static_cast<int>(offer.ranks), offer.ring_bytes, std::move(passed[0]),
                              std::move(wake), std::move(deaths));
    }
  }
  ArenaSeat seat = sit(std::move(group), static_cast<int>(offer.index));
  std::byte answer = kMappedMark;
  co_await stream->write({&answer, 1});
  co_return seat;
}

}  // namespace anello::bootstrap
