// Every instruction-set level against the plain one, bit for bit.
#include "kernels/reduce_levels.h"
#include "support/catch.h"
#include "support/operands.h"

#include <algorithm>

namespace anello::kernels {
namespace {

using testing::all_dtypes;
using testing::operands;
using testing::ops_of;

constexpr std::size_t kCounts[] = {0, 1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 129, 1023, 4099};
constexpr std::size_t kGuard = 64;

// Room at a chosen misalignment, with guard bytes on both sides.
class Room {
 public:
  Room(std::size_t bytes, std::size_t misalignment)
      : storage_(bytes + 2 * kGuard + 64, 0xa5), start_(kGuard + misalignment), bytes_(bytes) {
    while (reinterpret_cast<std::uintptr_t>(storage_.data() + start_ - misalignment) % 64 != 0) ++start_;
  }
  unsigned char* data() { return storage_.data() + start_; }
  void fill(const std::vector<unsigned char>& bytes) { std::copy_n(bytes.begin(), bytes_, data()); }
  bool holds(Room& other) { return std::equal(data(), data() + bytes_, other.data()); }
  bool guarded() const {
    const auto untouched = [](unsigned char byte) { return byte == 0xa5; };
    const auto begin = storage_.begin() + static_cast<std::ptrdiff_t>(start_);
    return std::all_of(storage_.begin(), begin, untouched) &&
           std::all_of(begin + static_cast<std::ptrdiff_t>(bytes_), storage_.end(), untouched);
  }

 private:
  std::vector<unsigned char> storage_;
  std::size_t start_;
  std::size_t bytes_;
};

template <class Check>
void for_each_case(Check check) {
  std::mt19937_64 random(20260101);
  for (const auto& row : all_dtypes()) {
    for (const anello_op_t op : ops_of(row.dtype)) {
      for (const Level level : usable_levels()) {
        INFO(dtype_name(row.dtype) << " " << op_name(op) << " at " << level_name(level));
        for (const std::size_t count : kCounts) {
          INFO("count " << count);
          const std::size_t misalignment = random() % 64;
          check(reducer(Level::plain, row.dtype, op), reducer(level, row.dtype, op), row.dtype, count, misalignment,
                random);
        }
      }
    }
  }
}

TEST_CASE("every level that this processor has is listed, plain first") {
  REQUIRE(!usable_levels().empty());
  CHECK(usable_levels().front() == Level::plain);
  CHECK(std::is_sorted(usable_levels().begin(), usable_levels().end()));
  for (const auto& row : all_dtypes()) {
    for (const anello_op_t op : ops_of(row.dtype)) {
      CHECK(&reducer(row.dtype, op) == &reducer(usable_levels().back(), row.dtype, op));
    }
  }
}

TEST_CASE("reduce gives the same bits at every level, misaligned, in place or not") {
  for_each_case([](const Reducer& plain, const Reducer& level, anello_dtype_t dtype, std::size_t count,
                   std::size_t misalignment, std::mt19937_64& random) {
    const std::size_t bytes = count * plain.element_bytes;
    const auto left_bytes = operands(dtype, count, random), right_bytes = operands(dtype, count, random);
    Room left(bytes, 0), right(bytes, 0), expected(bytes, 0);
    left.fill(left_bytes);
    right.fill(right_bytes);
    plain.reduce(expected.data(), left.data(), right.data(), count);

    Room l(bytes, misalignment), r(bytes, misalignment / 2), into(bytes, misalignment / 3);
    l.fill(left_bytes);
    r.fill(right_bytes);
    level.reduce(into.data(), l.data(), r.data(), count);
    REQUIRE(into.holds(expected));
    REQUIRE(into.guarded());
    REQUIRE(l.holds(left));
    REQUIRE(r.holds(right));

    level.reduce(l.data(), l.data(), r.data(), count);  // into == left
    REQUIRE(l.holds(expected));
    REQUIRE(l.guarded());
    l.fill(left_bytes);
    level.reduce(r.data(), l.data(), r.data(), count);  // into == right
    REQUIRE(r.holds(expected));
    REQUIRE(r.guarded());

    plain.reduce(expected.data(), left.data(), left.data(), count);
    level.reduce(l.data(), l.data(), l.data(), count);  // all three
    REQUIRE(l.holds(expected));
  });
}

TEST_CASE("reduce_twice stores what reduce stores to both, also where both are operands") {
  for_each_case([](const Reducer& plain, const Reducer& level, anello_dtype_t dtype, std::size_t count,
                   std::size_t misalignment, std::mt19937_64& random) {
    const std::size_t bytes = count * plain.element_bytes;
    const auto left_bytes = operands(dtype, count, random), right_bytes = operands(dtype, count, random);
    Room l(bytes, misalignment), r(bytes, misalignment / 2), into(bytes, misalignment / 3),
        twin(bytes, misalignment / 5);
    Room left(bytes, 0), expected(bytes, 0);
    l.fill(left_bytes);
    left.fill(left_bytes);
    r.fill(right_bytes);
    plain.reduce(expected.data(), l.data(), r.data(), count);
    level.reduce_twice(into.data(), twin.data(), l.data(), r.data(), count);
    REQUIRE(into.holds(expected));
    REQUIRE(twin.holds(expected));
    REQUIRE(into.guarded());
    REQUIRE(twin.guarded());
    REQUIRE(l.holds(left));
    level.reduce_twice(l.data(), r.data(), l.data(), r.data(), count);
    REQUIRE(l.holds(expected));
    REQUIRE(r.holds(expected));
    REQUIRE(l.guarded());
    REQUIRE(r.guarded());
    l.fill(left_bytes);
    r.fill(right_bytes);
    level.reduce_twice(r.data(), l.data(), l.data(), r.data(), count);
    REQUIRE(l.holds(expected));
    REQUIRE(r.holds(expected));
  });
}

TEST_CASE("reduce_all reduces its sources in order and stores to all destinations, which may be sources") {
  for_each_case([](const Reducer& plain, const Reducer& level, anello_dtype_t dtype, std::size_t count,
                   std::size_t misalignment, std::mt19937_64& random) {
    REQUIRE((level.reduce_all == nullptr) == (plain.reduce_all == nullptr));
    REQUIRE((level.reduce_all != nullptr || plain.element_bytes >= 8));
    if (level.reduce_all == nullptr) return;
    const std::size_t bytes = count * plain.element_bytes;
    std::vector<unsigned char> sum(count * plain.accumulator_bytes);
    for (const int sources : {2, 3, 4, 8}) {
      std::vector<Room> rooms;
      std::vector<const void*> from;
      Room expected(bytes, 0), other(bytes, misalignment / 2);
      rooms.reserve(std::size_t(sources));
      for (int s = 0; s < sources; ++s) {
        rooms.emplace_back(bytes, (misalignment + std::size_t(s)) % 64);
        rooms.back().fill(operands(dtype, count, random));
        from.push_back(rooms.back().data());
        (s == 0 ? plain.widen : plain.accumulate)(sum.data(), from.back(), count);
      }
      plain.finish(expected.data(), sum.data(), count, sources);
      void* const into[] = {rooms.back().data(), other.data(), rooms.front().data()};
      level.reduce_all(into, 3, from.data(), sources, count);
      for (Room* room : {&rooms.back(), &other, &rooms.front()}) {
        REQUIRE(room->holds(expected));
        REQUIRE(room->guarded());
      }
    }
  });
}

TEST_CASE("widen, accumulate and finish give the same bits at every level, misaligned") {
  for_each_case([](const Reducer& plain, const Reducer& level, anello_dtype_t dtype, std::size_t count,
                   std::size_t misalignment, std::mt19937_64& random) {
    const std::size_t bytes = count * plain.element_bytes, wide = count * plain.accumulator_bytes;
    Room from(bytes, 0), from_level(bytes, misalignment), expected(wide, 0), accumulator(wide, misalignment / 2);
    for (int source = 0; source < 3; ++source) {
      const auto input = operands(dtype, count, random);
      from.fill(input);
      from_level.fill(input);
      (source == 0 ? plain.widen : plain.accumulate)(expected.data(), from.data(), count);
      (source == 0 ? level.widen : level.accumulate)(accumulator.data(), from_level.data(), count);
      REQUIRE(accumulator.holds(expected));
      REQUIRE(accumulator.guarded());
    }
    for (const int ranks : {1, 2, 3, 7, 4096}) {
      INFO("ranks " << ranks);
      Room result(bytes, 0), result_level(bytes, misalignment / 3);
      plain.finish(result.data(), expected.data(), count, ranks);
      level.finish(result_level.data(), accumulator.data(), count, ranks);
      REQUIRE(result_level.holds(result));
      REQUIRE(result_level.guarded());
      plain.finish_in_type(result.data(), from.data(), count, ranks);
      level.finish_in_type(result_level.data(), from_level.data(), count, ranks);
      REQUIRE(result_level.holds(result));
      REQUIRE(result_level.guarded());
      level.finish_in_type(from_level.data(), from_level.data(), count, ranks);
      REQUIRE(from_level.holds(result));
      from_level.fill(std::vector<unsigned char>(from.data(), from.data() + bytes));
    }
  });
}

struct Rounding {
  anello_dtype_t dtype;
  int dropped;  // bits of the float32 that lie below the result's last
};

template <class Bits>
void check_rounding(const Rounding& type, const std::vector<std::uint32_t>& patterns) {
  std::vector<Bits> expected(patterns.size()), got(patterns.size());
  reducer(Level::plain, type.dtype, ANELLO_SUM).finish(expected.data(), patterns.data(), patterns.size(), 1);
  for (const Level level : usable_levels()) {
    INFO(dtype_name(type.dtype) << " at " << level_name(level));
    reducer(level, type.dtype, ANELLO_SUM).finish(got.data(), patterns.data(), patterns.size(), 1);
    const auto [where, other] = std::mismatch(got.begin(), got.end(), expected.begin());
    const bool equal = where == got.end();
    CAPTURE(equal ? 0 : patterns[static_cast<std::size_t>(where - got.begin())]);
    CHECK(equal);
  }
}

TEST_CASE("float32 rounds to 16 and 8 bits alike at every level: around every midpoint and over random patterns") {
  std::mt19937_64 random(7);
  for (const Rounding& type : {Rounding{ANELLO_FLOAT16, 13}, Rounding{ANELLO_BFLOAT16, 16},
                               Rounding{ANELLO_FLOAT8_E4M3, 20}, Rounding{ANELLO_FLOAT8_E5M2, 21}}) {
    std::vector<std::uint32_t> patterns;
    for (std::uint64_t kept = 0; kept < std::uint64_t{1} << (32 - type.dropped); kept += type.dropped == 13 ? 7 : 1) {
      const auto midpoint = static_cast<std::uint32_t>((kept << type.dropped) + (1u << (type.dropped - 1)));
      patterns.insert(patterns.end(), {midpoint - 1, midpoint, midpoint + 1, static_cast<std::uint32_t>(random())});
    }
    // Of 8 bits the denormals' midpoints lie elsewhere.
    for (int i = 0; i < 50000; ++i) {
      const auto wide = static_cast<std::uint32_t>(random());
      patterns.push_back((wide & 0x80700000u) | (0x35000000u + (wide & 0x0f800000u)) | (i % 3 == 0 ? wide & 1 : 0));
    }
    if (dtype_bytes(type.dtype) == 1) {
      check_rounding<std::uint8_t>(type, patterns);
    } else {
      check_rounding<std::uint16_t>(type, patterns);
    }
  }
}

}  // namespace
}  // namespace anello::kernels
