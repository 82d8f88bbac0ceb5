#pragma once
// A number that comes with a write, where the device has no immediates (iWARP): the write, and then a SEND of four
// bytes. A queue pair delivers both in order, so the receiver hears of the number when it has the bytes.
//
// iWARP completes a request when its bytes are on their way. What the peer has is known from a READ of eight bytes
// behind it, which the peer's adapter answers after all before it. One READ is under way at a time, for all notes so
// far.
//
// The end that has dialled (joiner.h) must send first: a SEND of nothing, for which the other end waits.
#include "transports/verbs/library.h"
#include "transports/verbs/pages.h"
#include "transports/verbs/registrations.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace anello::transport {

class VerbsSentNotes {
 public:
  // Requests for so many writes and receives: each write is two, and there are the READ and the first SEND.
  static constexpr int sends_of(int writes) { return 2 * writes + 2; }
  static constexpr int receives_of(int receives) { return receives + 1; }

  // Throws Error.
  VerbsSentNotes(const std::shared_ptr<VerbsPort>& port, int writes, int receives);

  // Receive requests for the next numbers. Returns an errno.
  int post_receives(ibv_qp* pair, int count);
  // The write, if it has bytes, and the number. *posted: requests that will have a completion.
  int post(ibv_qp* pair, ibv_send_wr& write, std::uint32_t number, bool inlined, int* posted);
  // A READ for the notes that nothing is known of, if there are any and none is under way.
  bool has_question() const { return !is_asking_ && arrived_ < posted_; }
  int post_question(ibv_qp* pair, int* posted);
  int post_first(ibv_qp* pair);

  // Since when the peer's adapter owes an answer; 0: it does not.
  std::int64_t asked_ns() const { return is_asking_ ? asked_ns_ : 0; }

  // What a completion of the adapter's says, in the words of writes with immediates.
  void take(const ibv_wc& completion, std::vector<ibv_wc>& said);
  // Whether the first SEND has gone, or has come.
  bool has_begun() const { return has_begun_; }
  // Whether it is of a request that post_receives(), post() or post_question() have counted.
  static bool is_counted(const ibv_wc& completion);

 private:
  std::uint32_t* word(std::size_t at) const {
    return reinterpret_cast<std::uint32_t*>(pages_.data() + at * kWordBytes);
  }
  ibv_sge part(std::size_t at, std::uint32_t bytes) const;
  ibv_send_wr question(ibv_sge* into) const;
  void take_asked();
  void take_word(const ibv_wc& completion, std::vector<ibv_wc>& said);

  static constexpr std::size_t kWordBytes = 8;
  const std::size_t writes_, receives_;
  // Words: of receives, of sends, and the answer to a READ.
  VerbsPages pages_;
  VerbsRegistration region_;
  std::uint64_t next_receive_ = 0;
  std::uint64_t posted_ = 0;   // notes
  std::uint64_t asked_ = 0;    // of those, before the READ under way
  std::uint64_t arrived_ = 0;  // are at the peer
  bool is_asking_ = false;
  std::int64_t asked_ns_ = 0;
  bool has_begun_ = false;
  std::uint64_t peer_address_ = 0;
  std::uint32_t peer_key_ = 0;
};

}  // namespace anello::transport
