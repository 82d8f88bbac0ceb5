#pragma once
// What anellorun and its agents on other hosts say to each other, over the standard streams of a remote shell. A frame
// is a length (4 bytes), a kind (1 byte) and a body. Before its first frame, an agent writes kPreamble: what the login
// shell prints comes before that and is not a frame.
//
//   launcher                            agent
//                                <-     hello (version, host name)
//   job (secret, share, environment) ->
//   offer                        ->                             } to the host of rank 0: where could others meet?
//                                <-     offers (nonce, places)  }
//   probe (nonce, places)        ->                             } to the others: which of these do you reach?
//                                <-     probed (what became of each place)
//   start (place)                ->
//                                <-     started
//   signal, gone, input, taken, unread, tell, beat  ->
//                                <-     bound, threads, output, ended, gone, input_taken, told, beat
//   finish                       ->
//                                <-     done
//
// At any time the agent may say refused (why), or cannot_start, and end. Numbers have the byte order of the host, all
// of which have the same one: Anello's ranks could not talk to each other otherwise.
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace anellorun {

inline constexpr std::uint32_t kAgentVersion = 5;
inline constexpr std::string_view kPreamble =
    "\n\x01"
    "anellorun agent\x02\n";
inline constexpr std::size_t kMaxNoise = 64 * 1024;      // before the preamble
inline constexpr std::size_t kMaxFrame = 16 << 20;       // of a job, which holds an environment
inline constexpr std::size_t kMaxPiece = 64 * 1024;      // of output or input
inline constexpr std::size_t kMaxMessage = 4096;         // between the launcher and a rank of an elastic job
inline constexpr std::size_t kMaxUntaken = 1024 * 1024;  // bytes of a host's output on their way, for each stream

enum class Kind : std::uint8_t {
  hello = 1,    // u32 version, text host name
  job,          // text secret, text name, Share, text folder, u32 count, text variables
  offer,        // text variable, text interface, text ports
  offers,       // text nonce, u32 count, {text address, u32 port}
  probe,        // the same
  probed,       // u32 count, {u32 errno, u32 microseconds, i64 microseconds by which the clock there is ahead}
  start,        // text address, u32 port
  started,      // u32 count, {u32 rank, u32 pid}
  signal,       // u32 number, u32 also orphans
  output,       // u32 rank, u32 stream, text bytes
  taken,        // u32 stream, u32 bytes: of output
  unread,       // u32 stream
  ended,        // u32 rank, u32 pid, u32 status
  gone,         // u32 rank
  bound,        // u32 rank, text processors
  input,        // text bytes; empty: its end
  input_taken,  // u32 bytes
  finish,
  done,
  beat,
  refused,       // text why
  cannot_start,  // u32 errno, text program
  tell,          // u32 rank, text message
  told,          // the same
  threads,       // u32 rank, u32 ranks, u32 processors, u32 threads, u32 alike
};

// Something came that no agent or launcher of this version says.
struct WrongFrame : std::runtime_error {
  WrongFrame() : std::runtime_error("it does not speak as this version of anellorun does") {}
};

class Writer {
 public:
  Writer& put(std::uint32_t number) {
    body_.append(reinterpret_cast<const char*>(&number), sizeof number);
    return *this;
  }
  Writer& put(int number) { return put(static_cast<std::uint32_t>(number)); }
  Writer& put(std::string_view text) {
    put(static_cast<std::uint32_t>(text.size()));
    body_.append(text);
    return *this;
  }
  Writer& put_signed(std::int64_t number) {
    body_.append(reinterpret_cast<const char*>(&number), sizeof number);
    return *this;
  }
  const std::string& body() const { return body_; }

 private:
  std::string body_;
};

// Every number is bounded by its caller. All throw WrongFrame.
class Reader {
 public:
  explicit Reader(std::string_view body) : rest_(body) {}

  std::uint32_t number(std::uint32_t most = UINT32_MAX) {
    std::uint32_t value;
    if (rest_.size() < sizeof value) throw WrongFrame();
    rest_.copy(reinterpret_cast<char*>(&value), sizeof value);
    rest_.remove_prefix(sizeof value);
    if (value > most) throw WrongFrame();
    return value;
  }
  int integer(int most) { return static_cast<int>(number(static_cast<std::uint32_t>(most))); }
  // No farther from zero than so much.
  std::int64_t signed_number(std::int64_t most) {
    std::int64_t value;
    if (rest_.size() < sizeof value) throw WrongFrame();
    rest_.copy(reinterpret_cast<char*>(&value), sizeof value);
    rest_.remove_prefix(sizeof value);
    if (value > most || value < -most) throw WrongFrame();
    return value;
  }
  std::string_view text() {
    const std::size_t bytes = number();
    if (bytes > rest_.size()) throw WrongFrame();
    const std::string_view result = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return result;
  }
  // A number of things that follow, each of at least 4 bytes.
  std::size_t count() { return number(static_cast<std::uint32_t>(rest_.size() / 4)); }
  void end() const {
    if (!rest_.empty()) throw WrongFrame();
  }

 private:
  std::string_view rest_;
};

struct Frame {
  Kind kind;
  std::string body;
};

}  // namespace anellorun
