#pragma once
// A reliable connection to one peer, its completion queue, and the channel on which a sleeper hears of completions.
#include "base/unique_fd.h"
#include "transports/verbs/greeting.h"
#include "transports/verbs/port.h"
#include "transports/verbs/sent_notes.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace anello::transport {

// What a queue pair has done so far.
struct VerbsCounts {
  std::uint64_t writes = 0;
  std::uint64_t bytes = 0;  // written to the peer's memory
  std::uint64_t reads = 0;
  std::uint64_t bytes_read = 0;
  std::uint64_t completions = 0;

  VerbsCounts& operator+=(const VerbsCounts& more) {
    writes += more.writes;
    bytes += more.bytes;
    reads += more.reads;
    bytes_read += more.bytes_read;
    completions += more.completions;
    return *this;
  }
};

struct VerbsPairShape {
  int sends = 0, receives = 0;  // requests that can be posted; the completion queue holds those of all
  int access = 0;               // of the peer: ibv_access_flags
  int reads = 0;                // of the peer that it serves at once
};

class VerbsQueuePair final : private JoinUser {
 public:
  // Throws Error.
  VerbsQueuePair(std::shared_ptr<VerbsPort> port, const VerbsPairShape& shape);
  ~VerbsQueuePair() override;
  VerbsQueuePair(const VerbsQueuePair&) = delete;
  VerbsQueuePair& operator=(const VerbsQueuePair&) = delete;

  VerbsPairName name() const {
    return {pair_->qp_num, first_packet_, std::uint32_t(shape_.reads), place_.tcp_port, place_.secret};
  }
  const VerbsPort& port() const { return *port_; }

  // After this it receives and sends, but over iWARP not before poll() has seen that it is joined. Returns "" or why it
  // cannot.
  std::string connect(const PortAddress& port, const VerbsPairName& peer);
  bool is_joined() const { return is_joined_; }
  // After a completion with an error; "": that has another reason.
  std::string why_not_joined() const;
  // iWARP: since when the peer's adapter owes an answer; 0: it does not.
  std::int64_t asked_ns() const { return notes_ == nullptr ? 0 : notes_->asked_ns(); }
  // Reads that may be under way at once, once it is connected.
  int reads() const { return reads_; }

  // A write of the peer's memory with a number, which the peer's next receive request takes. Returns an errno.
  struct Write {
    const std::byte* from = nullptr;
    std::uint32_t key = 0;
    std::size_t bytes = 0;
    std::uint64_t to = 0;
    std::uint32_t to_key = 0;
    std::uint32_t number = 0;
    std::uint64_t id = 0;  // of its completion
  };
  int post(const Write& write);
  int post_receives(int count);
  // Reads or writes of the peer's memory, of which only the last one's completion comes. Returns an errno, and then
  // *posted says how many of them have been posted.
  struct Move {
    std::byte* local = nullptr;
    std::uint32_t key = 0;
    std::uint32_t bytes = 0;
    std::uint64_t remote = 0;
    std::uint32_t remote_key = 0;
    std::uint64_t id = 0;
  };
  static constexpr std::size_t kMostTogether = 16;
  int post(std::span<const Move> moves, bool writes, std::size_t* posted);
  const VerbsCounts& counts() const { return counts_; }
  int posted() const { return posted_; }  // requests without a completion
  // Valid until the next call.
  std::span<const ibv_wc> poll();

  // Readable if a completion has come since arm().
  int descriptor() const { return channel_->fd; }
  // Completions from here on are announced; the caller polls once more.
  void arm();
  // The peer gets nothing more, and all that has been posted ends, with an error. False: it cannot be done.
  bool stop();
  // The same, and waits until nothing that has been posted remains: the adapter touches no memory any more. Requires:
  // each request has a completion.
  void drain();

 private:
  int modify_to_init();
  int modify_to_receive(const PortAddress& port, const VerbsPairName& peer);
  int modify_to_send();
  std::string join(const PortAddress& port, const VerbsPairName& peer);
  void may_send() override;
  void not_joined() override;
  int post_request(const Write& write, ibv_send_wr& request);
  std::span<const ibv_wc> translate(std::size_t count);
  void ask();
  void create_pair();
  void release();

  std::shared_ptr<VerbsPort> port_;
  const VerbsPairShape shape_, capacity_;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* queue_ = nullptr;
  ibv_qp* pair_ = nullptr;
  std::uint32_t first_packet_ = 0;
  int reads_ = 0;
  std::size_t inline_bytes_ = 0;
  bool armed_ = false;
  int posted_ = 0;  // requests without a completion
  VerbsCounts counts_;
  std::array<ibv_wc, 16> completions_{};

  // Where the device has no immediates (iWARP):
  std::unique_ptr<VerbsSentNotes> notes_;
  JoinPlace place_;
  bool is_joined_ = false;
  std::atomic<bool> is_refused_ = false, has_stopped_ = false;  // set on the joiner's thread, too
  std::vector<ibv_wc> said_;                                    // as completions of a device that has them
};

// "the peer's adapter does not answer (12, vendor 0x0): ..", with the usual cause.
std::string completion_text(ibv_wc_status status, std::uint32_t vendor_error);

}  // namespace anello::transport
