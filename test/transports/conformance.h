#pragma once
// The contract of every lane, whatever carries it. A transport joins with one test case:
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

// Both ends of a lane between local ranks 0 and 1. `keep` holds their transports, which outlive the ends.
struct Lane {
  std::shared_ptr<TestArena> arena = std::make_shared<TestArena>(2);
  std::vector<std::shared_ptr<transport::Transport>> keep;
  std::unique_ptr<transport::Endpoint> end[2];
};
using LaneMaker = std::function<Lane()>;

// Contains Catch2 sections: call it once per TEST_CASE, as the last statement.
void keeps_contract(const LaneMaker& make);
// Runs both ends, each on a thread, with random sizes and habits. Returns the first error, or "".
std::string soak(Lane& lane, std::uint64_t seed, int frames);
// Runs one end, in a process of its own. The other end must use the same seed.
std::string soak_end(transport::Endpoint& end, const TestArena& arena, int rank, std::uint64_t seed, int frames);

// Returns byte n of frame `sequence` from `rank`. It depends on all three.
std::byte byte_of(int rank, std::uint32_t sequence, std::size_t n);
std::vector<std::byte> payload_of(int rank, std::uint32_t sequence, std::size_t bytes);
transport::FrameHeader header_of(int rank, std::uint32_t sequence, std::size_t bytes);
// "" if the header and the bytes are those that header_of and payload_of make.
std::string difference(const transport::FrameHeader& header, std::span<const std::byte> payload, int rank,
                       std::uint32_t sequence, std::size_t bytes);

// Sleeps on rank's descriptors, as the executor does, until something may have happened. False after 20 s.
bool sleep_on(transport::Endpoint& end, const TestArena& arena, int rank);

// Takes whole frames out of an end; the caller checks them.
class Collector {
 public:
  explicit Collector(transport::Endpoint& end) : end_(end) {}
  // Takes arrived bytes. True when they complete a frame: see header() and payload().
  bool poll();
  const transport::FrameHeader& header() const { return header_; }
  std::span<const std::byte> payload() const { return {bytes_.data(), header_.bytes}; }
  // It takes at most `piece` bytes at once, by view in multiples of 16, or by copy.
  std::size_t piece = transport::kMaxFrameBytes;
  bool by_view = false;
  std::string complaint;  // about an end that breaks the rules

 private:
  std::size_t take(std::size_t remaining);
  transport::Endpoint& end_;
  transport::FrameHeader header_;
  std::vector<std::byte> bytes_;
  std::size_t got_ = 0;
  bool under_way_ = false;
};

}  // namespace anello::testing
