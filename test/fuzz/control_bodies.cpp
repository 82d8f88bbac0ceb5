// The bodies of control frames between ranks, and what is made of the calls that they tell of.
#include "base/error.h"
#include "control/bodies.h"
#include "fuzz/input.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

using namespace anello;
using namespace anello::control;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t count) {
  fuzz::Input input(bytes, count);
  const int size = 1 + input.below(300);
  const int which = input.below(8);
  const auto is_rank = [&](int rank) { return rank >= 0 && rank < size; };
  const auto sequence = input.take<std::uint32_t>();
  Reader reader(input.text());
  try {
    switch (which) {
      case 0:
        if (!is_rank(take_rank(reader, size))) std::abort();
        break;
      case 1: {
        const LostBody lost = take_lost(reader, size);
        if (!is_rank(lost.rank) || lost.error.peer() >= size) std::abort();
        break;
      }
      case 2:
        if (!is_rank(take_ask(reader, size).asker)) std::abort();
        break;
      case 3: {  // two ranks' answers, judged
        std::map<int, CallHistory> histories;
        for (int rank = 0; rank < 2; ++rank) {
          AnswerBody answer = take_answer(reader, size);
          if (!is_rank(answer.asker) || !is_rank(answer.from)) std::abort();
          histories[rank] = std::move(answer.history);
          for (const CallRecord& record : histories[rank].records) {
            if (record.describe().size() > 1000) std::abort();
          }
        }
        judge(histories, sequence, Differing{0, 1});
        break;
      }
      case 5: take_beat(reader); break;
      case 6: {
        const LifeBody told = take_life(reader, size);
        if (told.life > Life::stopped || !std::all_of(told.ranks.begin(), told.ranks.end(), is_rank)) std::abort();
        break;
      }
      case 7: {
        const SilentBody told = take_silent(reader, size);
        if (told.ranks.empty() || !std::all_of(told.ranks.begin(), told.ranks.end(), is_rank)) std::abort();
        break;
      }
      default: {
        const FailedBody failed = take_failed(reader, size);
        if (failed.error.peer() >= size) std::abort();
        for (const int rank : failed.ranks) {
          if (!is_rank(rank)) std::abort();
        }
      }
    }
  } catch (const Error& error) {
    if (error.code() != ANELLO_ERR_CORRUPT) std::abort();
  }
  return 0;
}
