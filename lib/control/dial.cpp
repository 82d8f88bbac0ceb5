#include "control/dial.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "control/connect_failure.h"

#include <algorithm>
#include <cerrno>

namespace anello::control {
namespace {

// The result of a failed attempt.
struct Attempt {
  bool gone = false;  // no process listens, or the job is not known there
  bool answered = false;
  ConnectFailure failure;
};

Task<std::shared_ptr<Stream>> connect(asio::io_context& io, Address address, std::int64_t limit_ms, Attempt& attempt) {
  UniqueFd socket = start_connect(address);
  if (!socket) {
    attempt.failure.error = errno;
    attempt.gone = attempt.failure.error == ECONNREFUSED;
    co_return nullptr;
  }
  std::shared_ptr<Stream> stream = std::make_shared<Stream>(io, std::move(socket));
  const TimeLimit limit(stream, limit_ms);
  try {
    co_await stream->writable();
  } catch (const Error&) {
    attempt.failure.error = ETIMEDOUT;
    co_return nullptr;
  }
  if (const int error = connect_result(stream->descriptor()); error != 0) {
    attempt.failure.error = error;
    attempt.gone = error == ECONNREFUSED;
    co_return nullptr;
  }
  set_connection_options(stream->descriptor());
  co_return stream;
}

Task<std::shared_ptr<Stream>> try_once(asio::io_context& io, Address address, Credentials credentials,
                                       std::int64_t limit_ms, Attempt& attempt) {
  attempt.failure.address = address;
  std::shared_ptr<Stream> stream = co_await connect(io, address, limit_ms, attempt);
  if (!stream) co_return nullptr;
  const TimeLimit limit(stream, limit_ms);
  try {
    co_await claim(stream, credentials);
    co_return stream;
  } catch (const Unknown& error) {
    attempt.gone = attempt.answered = true;
    attempt.failure.what = error.text();
  } catch (const Error& error) {
    if (error.code() == ANELLO_ERR_AUTH || error.code() == ANELLO_ERR_VERSION) {
      throw Error(error.code(), text(address.describe(), ": ", error.text()));
    }
    // The time limit has closed the stream, or else the other side has.
    const bool late = !stream->open();
    if (late || error.code() == ANELLO_ERR_PEER_LOST) attempt.failure.error = late ? ETIMEDOUT : ECONNRESET;
    attempt.failure.what =
        late ? text("connected, but nothing answers (errno ", ETIMEDOUT, ")") : text("connected, but ", error.text());
  }
  co_return nullptr;
}

// Until a person hears of a place that does not answer. A place where no process listens yet is normal.
constexpr std::int64_t kTellAfterMs = 3'000;

}  // namespace

Task<std::shared_ptr<Stream>> dial(asio::io_context& io, Call call) {
  std::int64_t pause_ms = 1;
  std::int64_t limit_ms = 2'000;  // an overloaded machine gets more time in the next attempt
  std::vector<ConnectFailure> failures(call.addresses.size());
  const Deadline silent = Deadline::in_ms(kTellAfterMs);
  bool told = false;
  for (;;) {
    bool all_gone = true, answered = false;
    for (std::size_t i = 0; i < call.addresses.size(); ++i) {
      if (call.wanted && !call.wanted()) throw Error(ANELLO_ERR_ABORTED, "no longer wanted");
      Attempt attempt;
      const std::int64_t left_ms = std::max<std::int64_t>(call.deadline.left_ms(), 1);
      std::shared_ptr<Stream> stream =
          co_await try_once(io, call.addresses[i], call.credentials, std::min(limit_ms, left_ms), attempt);
      if (stream) co_return stream;
      all_gone = all_gone && attempt.gone;
      answered = answered || attempt.answered;
      // An attempt that the deadline cuts short says less than one before it.
      const bool cut = left_ms < limit_ms && attempt.failure.error == ETIMEDOUT;
      if (!cut || !failures[i].address) failures[i] = std::move(attempt.failure);
    }
    if (call.must_exist && all_gone) {
      Unknown over(ANELLO_ERR_RENDEZVOUS, describe(failures));
      over.process_answered = answered;
      throw over;
    }
    if (call.deadline.passed()) throw Error(ANELLO_ERR_RENDEZVOUS, describe(failures));
    if (!told && !all_gone && silent.passed()) {
      told = true;
      log::warn(call.credentials.from, "no connection yet: ", describe(failures));
    }
    co_await sleep_ms(io, std::min(pause_ms, std::max<std::int64_t>(call.deadline.left_ms(), 1)));
    pause_ms = std::min<std::int64_t>(pause_ms * 2, 50);
    limit_ms = std::min<std::int64_t>(limit_ms * 2, 10'000);
  }
}

}  // namespace anello::control
