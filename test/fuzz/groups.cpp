// What ranks say when communicators are made of others: of a split all choices, of a group its first member's answer.
#include "base/error.h"
#include "communicator/split.h"
#include "fuzz/input.h"

#include <cstdlib>
#include <vector>

using namespace anello;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t count) {
  fuzz::Input input(bytes, count);
  const int size = 1 + input.below(9), rank = input.below(size);
  const bool shares_memory = input.take<std::uint8_t>() % 2 != 0;
  const auto number = [&] {
    const int kind = input.below(4);
    return kind == 0 ? input.take<std::int32_t>() : input.below(3) - 1;
  };
  std::vector<Split::Choice> choices(std::size_t(size), Split::Choice{});
  for (Split::Choice& choice : choices) choice = {number(), number(), number(), std::uint32_t(number())};
  try {
    const Seating seating = seating_of(choices, rank);
    if (seating.ranks.empty() != (choices[std::size_t(rank)].color == ANELLO_UNDEFINED)) std::abort();
    if (seating.board < -1 || seating.board == 0 || seating.board >= memory::kMaxBoards) std::abort();
  } catch (const Error&) {
  }
  std::vector<int> members;
  for (int member = 0; member < size; ++member) members.push_back(member);
  const GroupAdmission admission{input.take<std::uint64_t>(), number(), number()};
  try {
    check_admission(admission, members, shares_memory, 0);
    if (admission.board < -1 || admission.board == 0 || admission.board >= memory::kMaxBoards) std::abort();
    if (admission.board >= 0 && !shares_memory) std::abort();
    if (admission.differing != -1) std::abort();
  } catch (const Error&) {
  }
  return 0;
}
