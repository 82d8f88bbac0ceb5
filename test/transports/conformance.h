#pragma once
// What every lane must do, whatever carries it. A transport joins with one test case:
//
//   TEST_CASE("shm keeps the contract of a lane") {
//     keeps_contract([] {
//       Lane lane;
//       for (int rank : {0, 1}) lane.keep.push_back(make_shm(lane.arena->of(rank)));
//       lane.end[0] = lane.keep[0]->open(1, 1, {});
//       lane.end[1] = lane.keep[1]->open(0, 0, {});
//       return lane;
//     });
//   }
#include "transports/test_arena.h"
#include "transports/transport.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace anello::testing {

// Both ends of a lane between local ranks 0 and 1. `keep` lives longer than the ends (transports that they belong to).
struct Lane {
  std::shared_ptr<TestArena> arena = std::make_shared<TestArena>(2);
  std::vector<std::shared_ptr<transport::Transport>> keep;
  std::unique_ptr<transport::Endpoint> end[2];
};
using LaneMaker = std::function<Lane()>;

// Calls Catch2's sections: once per TEST_CASE, and nothing after it.
void keeps_contract(const LaneMaker& make);
// Two ends, a thread each, random sizes and habits both ways; returns what went wrong, "" if nothing did.
std::string soak(Lane& lane, std::uint64_t seed, int frames);
// One end of that, for a process of its own. The other end runs it with the same seed.
std::string soak_end(transport::Endpoint& end, const TestArena& arena, int rank, std::uint64_t seed, int frames);

// The n-th byte of frame `sequence` from `rank`: differs per rank, frame and byte.
std::byte byte_of(int rank, std::uint32_t sequence, std::size_t n);
std::vector<std::byte> payload_of(int rank, std::uint32_t sequence, std::size_t bytes);
transport::FrameHeader header_of(int rank, std::uint32_t sequence, std::size_t bytes);
// "" when the header and the bytes are those that payload_of and header_of make.
std::string difference(const transport::FrameHeader& header, std::span<const std::byte> payload, int rank,
                       std::uint32_t sequence, std::size_t bytes);

// Sleeps on rank's descriptors, as the executor does, until something may have happened. False: 20 s passed.
bool sleep_on(transport::Endpoint& end, const TestArena& arena, int rank);

// Takes whole frames out of an end; what comes is checked by the caller.
class Collector {
 public:
  explicit Collector(transport::Endpoint& end) : end_(end) {}
  // Moves what has arrived. True when a frame has become complete: header() and payload().
  bool poll();
  const transport::FrameHeader& header() const { return header_; }
  std::span<const std::byte> payload() const { return {bytes_.data(), header_.bytes}; }
  // How it takes bytes: at most `piece` at once; by view in multiples of 16, or by copy.
  std::size_t piece = transport::kMaxFrameBytes;
  bool by_view = false;
  std::string complaint;  // of a view that breaks its rules

 private:
  std::size_t take(std::size_t remaining);
  transport::Endpoint& end_;
  transport::FrameHeader header_;
  std::vector<std::byte> bytes_;
  std::size_t got_ = 0;
  bool under_way_ = false;
};

}  // namespace anello::testing
