#pragma once
// Matches messages and receives within one communicator: a message goes into the first matching receive in the order of
// posting, and a receive takes the first matching message in the order of arrival. Probes report messages that no
// receive has taken; a matched probe hides its message from the others, for the receive that names its claim.
#include "base/fifo.h"
#include "messaging/frame.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <optional>
#include <utility>

namespace anello::messaging {

// The messages that a receive or a probe matches: from one rank or any, with one tag or any.
struct Pattern {
  int source = ANELLO_ANY_SOURCE;
  int tag = ANELLO_ANY_TAG;

  bool matches(int from, int of_tag) const {
    return (source == ANELLO_ANY_SOURCE || source == from) && is_tag_for(tag, of_tag);
  }
};

// Request: a receive or probe with `pattern()`, a member `claims` (the probe takes the message out) and its link Next.
// Message: a message that no receive has taken, with `source`, `tag` and `claim`.
template <class Request, Request* Request::*Next, class Message>
class Matching {
 public:
  using Requests = Fifo<Request, Next>;
  using At = typename std::deque<Message>::iterator;

  // ---- Receives and probes ----
  void post_receive(Request* receive) { receives_.push(receive); }
  void post_probe(Request* probe) { probes_.push(probe); }
  // Whether any receive or probe is posted and waits for a message.
  bool is_awaited() const { return !receives_.empty() || !probes_.empty(); }
  // Removes and returns the posted receive that matches the message. Null if there is none.
  Request* match(int source, int tag) {
    for (Request* receive = receives_.front(); receive != nullptr; receive = Requests::after(receive)) {
      if (!receive->pattern().matches(source, tag)) continue;
      receives_.remove(receive);
      return receive;
    }
    return nullptr;
  }
  template <class Visit>
  void each_request(Visit&& visit) const {
    receives_.each(visit);
    probes_.each(visit);
  }
  // Removes and returns any posted request. Null if there is none.
  Request* withdraw_any() {
    Request* const receive = receives_.pop();
    return receive != nullptr ? receive : probes_.pop();
  }

  // ---- Messages that no receive has taken ----
  std::size_t messages() const { return unexpected_.size(); }
  // The first message that matches the pattern. Null if there is none.
  Message* find(const Pattern& pattern) {
    if (unexpected_.empty()) return nullptr;
    const At found = first(pattern);
    return found == unexpected_.end() ? nullptr : &*found;
  }
  // Removes that message and gives it to the caller.
  std::optional<Message> take(const Pattern& pattern) {
    const At found = first(pattern);
    return found == unexpected_.end() ? std::nullopt : std::optional(remove(unexpected_, found));
  }
  // Removes the message that a matched probe has claimed under this number.
  std::optional<Message> take_claimed(std::uint32_t claim) {
    const At found = std::find_if(claimed_.begin(), claimed_.end(), [&](const Message& m) { return m.claim == claim; });
    return found == claimed_.end() ? std::nullopt : std::optional(remove(claimed_, found));
  }
  // Gives the first message that matches a number; no receive or probe finds it any more.
  const Message& claim(const Pattern& pattern) {
    Message message = remove(unexpected_, first(pattern));
    message.claim = next_claim_++;
    if (message.claim == 0) message.claim = next_claim_++;  // past the wrap; 0 is none
    claimed_.push_back(message);
    return claimed_.back();
  }
  // Keeps a message that no posted receive matches. Removes each matching probe in order and calls answer(probe,
  // message) for it, up to the first probe that claims the message.
  template <class Answer>
  void keep(const Message& message, Answer&& answer) {
    unexpected_.push_back(message);
    for (Request* probe = probes_.front(); probe != nullptr;) {
      Request* const next = Requests::after(probe);
      if (probe->pattern().matches(message.source, message.tag)) {
        probes_.remove(probe);
        // A probe is only posted while no message matches it, so this message is the first that it finds.
        const bool claims = probe->claims;
        answer(*probe, claims ? claim(probe->pattern()) : unexpected_.back());
        if (claims) return;
      }
      probe = next;
    }
  }
  template <class Visit>
  void each_message(Visit&& visit) {
    std::for_each(unexpected_.begin(), unexpected_.end(), visit);
    std::for_each(claimed_.begin(), claimed_.end(), visit);
  }
  void forget_messages() {
    unexpected_.clear();
    claimed_.clear();
  }

 private:
  At first(const Pattern& pattern) {
    return std::find_if(unexpected_.begin(), unexpected_.end(),
                        [&](const Message& message) { return pattern.matches(message.source, message.tag); });
  }
  static Message remove(std::deque<Message>& from, At at) {
    const Message message = *at;
    from.erase(at);
    return message;
  }

  Requests receives_;
  Requests probes_;
  std::deque<Message> unexpected_;
  std::deque<Message> claimed_;
  std::uint32_t next_claim_ = 1;
};

}  // namespace anello::messaging
