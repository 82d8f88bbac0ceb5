#include "control/control_tree.h"

#include "base/log.h"
#include "base/text.h"
#include "control/agent.h"
#include "control/peer_process.h"

#include <sys/ioctl.h>

namespace anello::control {
namespace {

constexpr std::int64_t kReturnMs = 10'000;  // the time for ranks to reach the next parent, however overloaded
constexpr std::size_t kMaxUnsent = 256;
constexpr std::int64_t kLookAgainMs = 200;
constexpr std::size_t kMaxRecent = 64;
constexpr std::int64_t kLastWordMs = 100;

}  // namespace

std::shared_ptr<Link> ControlTree::link_up(int parent, std::shared_ptr<Stream> stream) {
  limit_silence(stream->descriptor(), agent_.heartbeat().limit_ms());
  auto link = std::make_shared<Link>(agent_.service(), std::move(stream));
  links_[parent] = link;
  parentless_ = false;
  // The new parent may not have seen yet why this rank links to it.
  report_gone(*link);
  for (const Frame& frame : unsent_) link->send(frame);
  unsent_.clear();
  repeat_recent(*link, true);
  agent_.detour().ask_for_word(*link);
  return link;
}

Task<> ControlTree::climb(std::shared_ptr<Agent> agent, Deadline deadline) {
  const int parent = 0;
  if (agent->rank() == parent) co_return;
  Call call =
      agent->call_to(parent, Purpose::control, ways_to(agent->peer(agent->rank()), agent->peer(parent)), deadline);
  std::shared_ptr<Stream> stream = co_await dial(agent->service().io(), std::move(call));
  agent->tree().link_up(parent, std::move(stream));
  agent->service().spawn("control link", keep_parent(agent, parent));
}

Task<> ControlTree::read(std::shared_ptr<Agent> agent, int from, std::shared_ptr<Link> link) {
  std::string why = "its control connection closed";
  try {
    for (;;) {
      const Frame frame = co_await link->receive();
      if (agent->leaving()) continue;
      agent->heartbeat().heard(from);
      agent->receive(from, frame);
    }
  } catch (const Error& error) {
    if (error.code() != ANELLO_ERR_PEER_LOST) why = error.text();
  }
  PeerProcess process(*link->stream());
  link->close();
  auto& links = agent->tree().links_;
  const auto known = links.find(from);
  // Otherwise the rank has come back over a newer link, or is known to be gone.
  if (known == links.end() || known->second != link) co_return;
  links.erase(known);
  if (agent->has_goodbye(from) || agent->leaving()) co_return;
  const bool has_ended = co_await process.ends(agent->service().io());
  agent->peer_gone(from, has_ended ? "its process has ended" : why);
}

Task<> ControlTree::keep_parent(std::shared_ptr<Agent> agent, int parent) {
  ControlTree& tree = agent->tree();
  for (;;) {
    if (const auto link = tree.links_.find(parent); link != tree.links_.end()) {
      std::shared_ptr<Link> up = link->second;
      co_await read(agent, parent, up);
    }
    if (agent->leaving()) co_return;
    parent = agent->lowest_here();
    if (parent == agent->rank()) break;
    tree.parentless_ = true;
    Call call = agent->call_to(parent, Purpose::control, ways_to(agent->peer(agent->rank()), agent->peer(parent)),
                               Deadline::in_ms(kReturnMs));
    call.must_exist = true;
    call.wanted = [agent, parent] { return !agent->leaving() && agent->here(parent); };
    std::string why;
    try {
      std::shared_ptr<Stream> stream = co_await dial(agent->service().io(), std::move(call));
      if (agent->leaving()) co_return;
      if (agent->here(parent)) tree.link_up(parent, std::move(stream));
    } catch (const Unknown& over) {
      // It died or left before this rank linked to it.
      if (!agent->leaving()) agent->not_there(parent, over);
    } catch (const Error& error) {
      why = error.text();
    }
    if (!why.empty() && !agent->leaving()) agent->peer_gone(parent, "no control connection: " + why);
  }
  // This rank is the lowest now: the others link to it.
  tree.parentless_ = false;
  for (const Frame& frame : tree.unsent_) tree.send(frame);
  tree.unsent_.clear();
  tree.find_orphans();
}

// Some ranks of other hosts may have died or left before they linked to this one, so no link to them will close. A
// connection to their own address shows this at once; for a completely silent host, it shows at the end of the time
// limit.
void ControlTree::find_orphans() {
  for (int rank = agent_.rank() + 1; rank < agent_.size(); ++rank) {
    if (!agent_.here(rank) || agent_.watched(rank) || links_.contains(rank)) continue;
    Call probe = agent_.call_to(rank, Purpose::rendezvous, ways_to(agent_.peer(agent_.rank()), agent_.peer(rank)),
                                Deadline::in_ms(kReturnMs));
    probe.must_exist = true;
    agent_.service().spawn("orphan", call_orphan(agent_.weak_from_this(), std::move(probe), rank));
  }
}

Task<> ControlTree::call_orphan(std::weak_ptr<Agent> weak, Call probe, int rank) {
  const auto missing = [weak, rank] {
    const auto agent = weak.lock();
    return agent && !agent->leaving() && agent->here(rank) && !agent->tree().links_.contains(rank);
  };
  std::shared_ptr<Agent> agent = weak.lock();
  if (!agent) co_return;
  asio::io_context& io = agent->service().io();
  agent.reset();
  probe.wanted = missing;
  std::optional<Unknown> unknown;
  try {
    while (missing() && !probe.deadline.passed()) {
      Call once = probe;
      std::shared_ptr<Stream> stream = co_await dial(io, std::move(once));
      // It is alive and will link to this rank unless it dies first: check again later. The connection has no further
      // use.
      stream->close();
      co_await sleep_ms(io, kLookAgainMs);
    }
  } catch (const Unknown& over) {
    unknown = over;
  } catch (const Error&) {
    // There was no answer until the deadline.
  }
  agent = weak.lock();
  if (!missing()) co_return;
  if (unknown) {
    agent->not_there(rank, *unknown);
  } else {
    agent->peer_gone(rank, "its control connection did not come back");
  }
}

void ControlTree::adopt(int from, std::shared_ptr<Stream> stream) {
  limit_silence(stream->descriptor(), agent_.heartbeat().limit_ms());
  auto link = std::make_shared<Link>(agent_.service(), std::move(stream));
  if (const auto old = links_.find(from); old != links_.end()) old->second->close();
  links_[from] = link;
  // It may have missed messages while it had no link.
  report_gone(*link);
  repeat_recent(*link, false);
  agent_.service().spawn("control link", serve(agent_.shared_from_this(), from, std::move(link)));
}

void ControlTree::report_gone(Link& link) const {
  for (int rank = 0; rank < agent_.size(); ++rank) {
    if (agent_.standing(rank) == Agent::Standing::left) {
      link.send(Writer().put(rank).frame(kGoodbye));
    } else if (agent_.standing(rank) == Agent::Standing::lost) {
      Writer writer;
      writer.put(rank);
      put_error(writer, Error(ANELLO_ERR_PEER_LOST, agent_.who(rank) + " is lost", rank));
      link.send(writer.frame(kLost));
    }
  }
}

bool ControlTree::has_more_from(int rank, bool ended) {
  const Link* const link = link_to(rank);
  if (link == nullptr || !link->open()) return false;
  int unread = 0;
  return !ended || (::ioctl(link->stream()->descriptor(), FIONREAD, &unread) == 0 && unread > 0);
}

void ControlTree::repeat_recent(Link& link, bool own) const {
  const std::int64_t since = now_ns() - kReturnMs * 1'000'000;
  for (const Recent& recent : recent_) {
    if (recent.at_ns >= since && (recent.own || !own)) link.send(recent.frame);
  }
}

Link* ControlTree::link_to(int rank) {
  const auto link = links_.find(rank);
  return link == links_.end() ? nullptr : link->second.get();
}

Task<> ControlTree::serve(std::shared_ptr<Agent> agent, int from, std::shared_ptr<Link> link) {
  co_await read(agent, from, link);
}

void ControlTree::send(const Frame& frame, int except) {
  if (frame.kind == kAsk || frame.kind == kFailed) {
    recent_.push_back({now_ns(), frame, except == -1});
    if (recent_.size() > kMaxRecent) recent_.pop_front();
  }
  for (const auto& [rank, link] : links_) {
    if (rank != except) link->send(frame);
  }
  if (parentless_ && unsent_.size() < kMaxUnsent) unsent_.push_back(frame);
}

void ControlTree::send_to(int rank, const Frame& frame) {
  if (const auto link = links_.find(rank); link != links_.end()) {
    link->second->send(frame);
  } else if (agent_.lowest_here() != agent_.rank()) {
    // It is not one of those below, so the parent forwards it.
    if (const auto up = links_.find(agent_.lowest_here()); up != links_.end()) {
      up->second->send(frame);
    } else if (parentless_ && unsent_.size() < kMaxUnsent) {
      unsent_.push_back(frame);
    }
  }
}

void ControlTree::forget(int rank) {
  const auto link = links_.find(rank);
  if (link == links_.end()) return;
  link->second->close();
  links_.erase(link);
}

void ControlTree::let_go(int rank) {
  const auto link = links_.find(rank);
  if (link == links_.end()) return;
  agent_.service().spawn("control link", close_soon(link->second));
  links_.erase(link);
}

Task<> ControlTree::close_soon(std::shared_ptr<Link> link) {
  co_await Link::flushed(link, kLastWordMs);
  link->close();
}

bool ControlTree::needed() const {
  if (agent_.peers().empty()) return false;  // creation failed: there is no rank to tell
  for (int rank = 0; rank < agent_.size(); ++rank) {
    if (rank != agent_.rank() && agent_.here(rank) && !agent_.watched(rank)) return true;
  }
  return false;
}

bool ControlTree::settled() const {
  if (agent_.peers().empty()) return true;  // creation failed: there is no rank to tell
  const int parent = agent_.lowest_here();
  for (int rank = 0; rank < agent_.size(); ++rank) {
    if (rank == agent_.rank() || !agent_.here(rank) || agent_.watched(rank)) continue;
    if (!links_.contains(parent == agent_.rank() ? rank : parent)) return false;
  }
  return true;
}

Task<> ControlTree::finished(std::int64_t ms) {
  const Deadline deadline = Deadline::in_ms(ms);
  const std::map<int, std::shared_ptr<Link>> links = links_;
  for (const auto& [rank, link] : links) {
    co_await Link::flushed(link, deadline.left_ms());
    link->finish();
  }
  if (agent_.peers().empty()) co_return;  // creation failed: there is no rank to tell
  for (const auto& [rank, link] : links) {
    while (!agent_.watched(rank) && link->open() && !deadline.passed()) co_await sleep_ms(agent_.service().io(), 1);
  }
}

void ControlTree::close() {
  for (const auto& [rank, link] : links_) link->close();
  links_.clear();
}

}  // namespace anello::control
