#include "control/region_passing.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "control/agent.h"
#include "control/descriptor_passing.h"
#include "memory/region.h"

#include <utility>

#include <fcntl.h>

namespace anello::control {
namespace {

constexpr std::int64_t kAnswerMs = 10'000;
constexpr std::int64_t kPassOnMs = 2'000;  // a running rank has forwarded it by then
constexpr std::int64_t kLookMs = 200;
constexpr std::size_t kMostQuestions = 65'536;

}  // namespace

void RegionPassing::request(int peer, std::uint64_t region) { ask(agent_.rank(), peer, region); }

bool RegionPassing::is_local(int rank) const {
  const Member& member = agent_.peer(rank).member;
  return member.local_index >= 0 && member.machine == agent_.peer(agent_.rank()).member.machine;
}

int RegionPassing::way_to(int owner, int tries) const {
  for (int rank = 0; rank < agent_.size(); ++rank) {
    if (rank != agent_.rank() && !(is_local(rank) && agent_.here(rank))) continue;
    if (rank == agent_.rank() || rank == owner) return owner;
    if (tries-- == 0) return rank;
  }
  return owner;
}

void RegionPassing::ask(int asker, int owner, std::uint64_t region) {
  const auto known = questions_.find(region);
  if (known != questions_.end() && known->second.owner == owner) {
    known->second.askers.push_back(asker);
    return;
  }
  const bool lost = !agent_.here(owner) || !is_local(owner) || !agent_.peer(owner).unix_address;
  Question question;
  question.owner = owner;
  question.askers = {asker};
  // Questions about one region concern one owner; the region's identity is random.
  if (lost || known != questions_.end() || questions_.size() >= kMostQuestions) {
    return deliver(region, question, nullptr, lost ? "it is gone" : "too many ask");
  }
  question.until_ns = now_ns() + kAnswerMs * 1'000'000;
  send_on(region, questions_.emplace(region, std::move(question)).first->second);
  if (std::exchange(looks_after_, true)) return;
  agent_.service().spawn("region", retry_until_answered(agent_.weak_from_this()));
}

void RegionPassing::send_on(std::uint64_t region, Question& question) {
  // Other ranks' questions arrived here; this rank sends them directly to the owner, because otherwise two ranks could
  // forward them back and forth.
  const bool own = question.askers.size() == 1 && question.askers[0] == agent_.rank();
  question.via = own ? way_to(question.owner, question.tries) : question.owner;
  question.next_ns =
      question.via == question.owner ? question.until_ns : now_ns() + (kPassOnMs << question.tries) * 1'000'000;
  ++question.tries;
  tell(question.via, {Kind::wanted, question.owner, region});
}

void RegionPassing::answer(std::uint64_t region, const Memory& memory, const std::string& why) {
  const auto found = questions_.find(region);
  if (found == questions_.end()) return;
  const Question question = std::move(found->second);
  questions_.erase(found);
  deliver(region, question, memory, why);
}

void RegionPassing::deliver(std::uint64_t region, const Question& question, const Memory& memory,
                            const std::string& why) {
  for (const int asker : question.askers) {
    if (asker != agent_.rank()) {
      send_answer(asker, question.owner, region, memory);
      continue;
    }
    Event event;
    event.kind = Event::Kind::region;
    event.peer = question.owner;
    event.region = region;
    if (memory) event.memory = memory->copy();
    if (!event.memory) {
      event.error = Error(ANELLO_ERR_PEER_LOST,
                          text("the memory of ", describe(agent_.peer(question.owner).member),
                               " is not available: ", memory ? "no descriptors are left" : why),
                          question.owner);
      log::debug(agent_.rank(), event.error.text());
    }
    agent_.mailbox().put(std::move(event));
  }
}

void RegionPassing::send_answer(int to, int owner, std::uint64_t region, const Memory& memory) {
  if (!memory) return tell(to, {Kind::gone, owner, region});
  tell(to, {Kind::here, owner, region, memory->offset, memory->bytes}, memory);
}

void RegionPassing::tell(int to, const Message& message, Memory memory) {
  if (agent_.leaving()) return;
  Line& line = lines_[to];
  line.queued.emplace_back(message, std::move(memory));
  if (std::exchange(line.draining, true)) return;
  agent_.service().spawn("region", drain(agent_.shared_from_this(), to));
}

Task<> RegionPassing::drain(std::shared_ptr<Agent> agent, int to) {
  RegionPassing& self = agent->regions();
  std::shared_ptr<Stream> stream = self.lines_[to].stream;
  std::string why;
  try {
    if (!stream) {
      Call call = agent->call_to(to, Purpose::region, {agent->peer(to).unix_address}, Deadline::in_ms(kAnswerMs));
      call.wanted = [agent, to] { return !agent->leaving() && agent->here(to); };
      stream = co_await dial(agent->service().io(), std::move(call));
      require_same_user(stream->descriptor());
      if (agent->leaving()) co_return;
      Line& line = self.lines_[to];
      // Both ranks may have connected to each other.
      if (!line.stream) line.stream = stream;
      agent->service().spawn("region", read(agent, to, stream));
    }
    while (!self.lines_[to].queued.empty()) {
      const auto [message, memory] = std::move(self.lines_[to].queued.front());
      self.lines_[to].queued.pop_front();
      co_await stream->write(std::as_bytes(std::span(&message, 1)));
      if (message.kind != Kind::here) continue;
      const int descriptor = memory->file.get();
      co_await stream->write_descriptors(std::byte{'y'}, {&descriptor, 1});
    }
  } catch (const Error& error) {
    why = error.text();
  }
  Line& line = self.lines_[to];
  line.draining = false;
  if (why.empty()) co_return;
  line.queued.clear();
  self.line_ended(to, stream, why);
}

// Questions that were sent over it take another path, as long as there is time.
void RegionPassing::line_ended(int to, const std::shared_ptr<Stream>& stream, const std::string& why) {
  if (agent_.leaving()) return;
  const auto line = lines_.find(to);
  if (line != lines_.end() && line->second.stream == stream) {
    if (stream) stream->close();
    line->second.stream.reset();
    if (!line->second.draining) lines_.erase(line);
  }
  std::vector<std::uint64_t> lost;
  for (const auto& [region, question] : questions_) {
    if (question.via == to) lost.push_back(region);
  }
  for (const std::uint64_t region : lost) {
    Question& question = questions_[region];
    if (question.via == question.owner || question.tries > 2) {
      answer(region, nullptr, why);
    } else {
      send_on(region, question);
    }
  }
}

void RegionPassing::adopt(int from, std::shared_ptr<Stream> stream) {
  require_same_user(stream->descriptor());
  Line& line = lines_[from];
  if (!line.stream) line.stream = stream;
  agent_.service().spawn("region", read(agent_.shared_from_this(), from, std::move(stream)));
}

Task<> RegionPassing::read(std::shared_ptr<Agent> agent, int from, std::shared_ptr<Stream> stream) {
  RegionPassing& self = agent->regions();
  std::string why;
  try {
    while (!agent->leaving()) {
      Message message{};
      co_await stream->read(std::as_writable_bytes(std::span(&message, 1)));
      std::vector<UniqueFd> passed;
      if (message.kind == Kind::here) co_await stream->read_descriptors(passed);
      if (agent->leaving()) co_return;
      self.receive(from, message, passed.size() == 1 ? std::move(passed.front()) : UniqueFd());
    }
  } catch (const Error& error) {
    why = error.text();
  }
  stream->close();
  self.line_ended(from, stream, why);
}

void RegionPassing::receive(int from, const Message& message, UniqueFd memory) {
  if (message.owner < 0 || message.owner >= agent_.size()) throw Reader::corrupt();
  if (message.kind == Kind::wanted && message.owner == agent_.rank()) {
    memory::PassedRange own = memory::pass_region(message.region);
    log::debug(agent_.rank(), "rank ", from, own ? " asks for" : " asks without success for",
               " memory of this process");
    const Memory passed = own ? std::make_shared<const memory::PassedRange>(std::move(own)) : nullptr;
    return send_answer(from, message.owner, message.region, passed);
  }
  if (message.kind == Kind::wanted) return ask(from, message.owner, message.region);
  if (message.kind != Kind::here && message.kind != Kind::gone) throw Reader::corrupt();
  const auto question = questions_.find(message.region);
  // The answer to a question that took another path meanwhile, or was never asked.
  if (question == questions_.end() || question->second.owner != message.owner) return;
  if (message.kind == Kind::gone && question->second.via != from) return;
  Memory passed;
  if (memory)
    passed = std::make_shared<const memory::PassedRange>(
        memory::PassedRange{std::move(memory), message.offset, message.bytes});
  answer(message.region, passed, "it has no such memory");
}

Task<> RegionPassing::retry_until_answered(std::weak_ptr<Agent> weak) {
  for (;;) {
    std::shared_ptr<Agent> agent = weak.lock();
    if (!agent || agent->leaving()) co_return;
    RegionPassing& self = agent->regions();
    if (self.questions_.empty()) {
      self.looks_after_ = false;
      co_return;
    }
    const std::int64_t now = now_ns();
    std::vector<std::uint64_t> due;
    for (const auto& [region, question] : self.questions_) {
      if (now >= question.next_ns || now >= question.until_ns) due.push_back(region);
    }
    for (const std::uint64_t region : due) {
      Question& question = self.questions_[region];
      if (now >= question.until_ns) {
        self.answer(region, nullptr, text("no answer in ", kAnswerMs / 1000, " s"));
      } else {
        self.send_on(region, question);
      }
    }
    asio::io_context& io = agent->service().io();
    agent.reset();
    co_await sleep_ms(io, kLookMs);
  }
}

void RegionPassing::close() {
  for (const auto& [rank, line] : lines_) {
    if (line.stream) line.stream->close();
  }
}

}  // namespace anello::control
