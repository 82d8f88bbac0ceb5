#pragma once
// A collective call as its rank made it, and the digest by which ranks notice that their calls differ.
#include "base/label.h"

#include <anello/anello.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace anello::recorder {

// Kinds beyond anello_kind_t: calls that consist of collectives.
inline constexpr std::int32_t kDupCall = 100;
inline constexpr std::int32_t kSplitCall = 101;
inline constexpr std::int32_t kWindowCreateCall = 102;
inline constexpr std::int32_t kWindowFreeCall = 103;

struct CallFields {
  std::int32_t kind = 0;  // anello_kind_t, or one of the above
  std::int32_t dtype = 0;
  std::int32_t op = 0;
  std::int32_t root = 0;
  std::int16_t refused = 0;    // if not 0, the call was refused on its rank with this anello_result_t
  std::uint16_t labelled = 0;  // has a label
  std::uint32_t padding = 0;   // the words have no padding
  std::uint64_t count = 0;
  std::uint64_t algorithm = 0;  // named_algorithm of the algorithm that the call itself requested; 0: none
};

// The first letters of an algorithm's name, as many as a number holds.
std::uint64_t named_algorithm(std::string_view name);

struct CallRecord : CallFields {
  std::uint32_t sequence = 0;
  std::uint64_t digest = 0;     // of the fields that must be equal, chained over all earlier calls
  std::uint64_t described = 0;  // the place of the noted fields in the ledger; 0: they have changed
  // This rank's own field, which is in no digest.
  const Label& label() const { return label_; }
  void set_label(const Label& label) {
    label_ = label;
    labelled = label.empty() ? 0 : 1;
    described = 0;
  }
  // "allreduce(count 1000, float32, sum)"
  std::string describe() const;

 private:
  Label label_;
};

// The digest of the fields of this call that must be equal on all ranks: kind, dtype, op, root, count, algorithm,
// refusal.
std::uint64_t digest_of(const CallRecord& record);

}  // namespace anello::recorder
