#include "base/log.h"
#include "base/text.h"
#include "bootstrap/joining.h"
#include "bootstrap/meeting_file.h"
#include "bootstrap/unique_id.h"
#include "bootstrap/join.h"
#include "control/host.h"

#include <charconv>
#include <cstring>
#include <mutex>
#include <optional>
#include <span>

#include <time.h>

namespace anello::bootstrap {
namespace {

using namespace control;

constexpr int kMaxCreations = 1'000'000;  // over one store
constexpr std::int64_t kKnockMs = 3'000;  // a process that is there answers sooner, even on a busy machine
constexpr std::int64_t kLookMs = 20;      // between two looks at the file

void pause_ms(std::int64_t ms) {
  const timespec time{ms / 1000, ms % 1000 * 1'000'000};
  ::nanosleep(&time, nullptr);
}

bool same(const MeetingNote& a, const MeetingNote& b) {
  return std::memcmp(a.id.bytes, b.id.bytes, sizeof a.id.bytes) == 0;
}

// Rank 0's part.
std::unique_ptr<Job> open_file(const MeetingFile& file, const std::string& job, const Wish& wish) {
  const Host& here = this_host();
  const MeetingNote note{job, here.name, here.pid, make_unique_id()};
  if (!file.create(note)) {
    const std::optional<MeetingNote> old = file.read();
    if (old && is_open(decode_id(old->id), kKnockMs)) {
      throw Error(ANELLO_ERR_RENDEZVOUS,
                  text("the ranks of another job are about to meet over the file ", file.path(), " (process ", old->pid,
                       " on host ", old->host, "); give each job a file of its own"));
    }
    if (old) log::info(wish.rank, file.path(), ": from process ", old->pid, " on host ", old->host, ", which is gone");
    file.replace(note);
  }
  try {
    std::unique_ptr<Job> joined = join_at(decode_id(note.id), wish);
    file.remove(note);
    return joined;
  } catch (...) {
    file.remove(note);
    throw;
  }
}

}  // namespace

// Each creation over a store has its own key. Rank 0 takes the first free one; the others try the newest existing one
// and go on to the next if its ranks have already met.
std::unique_ptr<Job> join_over(const anello_store_t& store, const Wish& wish) {
  for (int i = 0; i < kMaxCreations; ++i) {
    const std::string key = text("anello/", i);
    anello_unique_id_t id;
    const Wiped wiped(std::as_writable_bytes(std::span(id.bytes)));
    std::size_t bytes = sizeof id.bytes;
    if (wish.rank == 0) {
      if (store.get(store.context, key.c_str(), id.bytes, &bytes, 0) == 0) continue;
      id = make_unique_id();
      const int refused = store.set(store.context, key.c_str(), id.bytes, sizeof id.bytes);
      if (refused != 0)
        throw Error(ANELLO_ERR_RENDEZVOUS, text("the store's set(\"", key, "\") failed with ", refused));
      return join_at(decode_id(id), wish);
    }
    const std::int64_t asked_ms = wish.deadline.left_ms();
    const int refused = store.get(store.context, key.c_str(), id.bytes, &bytes, asked_ms);
    const std::int64_t left_ms = wish.deadline.left_ms();
    if (refused != 0 && left_ms > asked_ms / 10) {  // a store's clock may be slightly ahead
      throw Error(ANELLO_ERR_RENDEZVOUS,
                  text("the store's get(\"", key, "\") failed with ", refused, " after ", asked_ms - left_ms, " of ",
                       asked_ms, " ms: look whether the store is still there"));
    }
    if (refused != 0) {
      throw Error(ANELLO_ERR_RENDEZVOUS, text("rank 0 of ", wish.size, " did not come within ", wish.timeout_ms,
                                              " ms: the store has no \"", key, "\""));
    }
    if (bytes != sizeof id.bytes) throw Error(ANELLO_ERR_RENDEZVOUS, text("the store's \"", key, "\" is not Anello's"));
    try {
      return join_at(decode_id(id), wish);
    } catch (const Unknown&) {
      // The ranks of that creation have met; this rank belongs to a later one.
    }
  }
  throw Error(ANELLO_ERR_RESOURCE, "too many creations over one store");
}

namespace {

anello_unique_id_t id_from(const std::string& digits) {
  anello_unique_id_t id;
  bool right = digits.size() == 2 * sizeof id.bytes;
  for (std::size_t i = 0; right && i < sizeof id.bytes; ++i) {
    const char* const from = digits.data() + 2 * i;
    const auto [end, error] = std::from_chars(from, from + 2, id.bytes[i], 16);
    right = error == std::errc{} && end == from + 2;
  }
  if (!right)
    throw Error(ANELLO_ERR_RENDEZVOUS,
                "the launcher's key space has something under Anello's key that is not Anello's");
  return id;
}

}  // namespace

// Each creation has its own key. After the barrier, all ranks find it.
std::unique_ptr<Job> join_over_key_space(const KeySpaceAt& at, const Wish& wish) {
  static std::mutex mutex;
  static int creations = 0;
  anello_unique_id_t id;
  const Wiped wiped(std::as_writable_bytes(std::span(id.bytes)));
  {
    const std::lock_guard alone(mutex);
    KeySpace& space = key_space_of_process(at, wish.rank);
    const std::string key = text("anello-", creations++);
    if (wish.rank == 0) {
      id = make_unique_id();
      space.put(key, hex(std::as_bytes(std::span(id.bytes))), wish.deadline);
    }
    space.barrier(wish.deadline);
    if (wish.rank != 0) id = id_from(space.get(key, wish.deadline));
  }
  return join_at(decode_id(id), wish);
}

std::unique_ptr<Job> join_over_file(const std::string& path, const std::string& job, const Wish& wish) {
  const MeetingFile file(path);
  if (wish.rank == 0) return open_file(file, job, wish);
  std::optional<MeetingNote> seen;  // the last one that led nowhere
  for (; !wish.deadline.passed(); pause_ms(kLookMs)) {
    const std::optional<MeetingNote> note = file.read();
    if (!note || (seen && same(*note, *seen))) continue;
    seen = note;
    if (note->job != job) continue;
    Meeting meeting = decode_id(note->id);
    meeting.place = text("the one that the file ", path, " names");
    meeting.wanted = [file, note = *note] {
      try {
        return file.says(note);
      } catch (const Error&) {
        return false;
      }
    };
    try {
      return join_at(meeting, wish);
    } catch (const Unknown&) {
      // Of a job that is gone, or of this job's creation before this one.
    } catch (const Error& error) {
      if (error.code() != ANELLO_ERR_ABORTED) throw;  // the file has changed
    }
  }
  throw Error(ANELLO_ERR_RENDEZVOUS,
              text("rank 0 of ", wish.size, " did not come within ", wish.timeout_ms, " ms: ",
                   !seen              ? text("there is no file ", path)
                   : seen->job != job ? text("the file ", path, " is of another job, ", seen->job)
                                      : text("the file ", path, " is of process ", seen->pid, " on host ", seen->host,
                                             ", which has no meeting open")));
}

}  // namespace anello::bootstrap
