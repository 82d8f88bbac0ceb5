#include "anellorun/remote_host.h"

#include "anellorun/agent.h"
#include "anellorun/options.h"
#include "anellorun/process.h"
#include "anellorun/signals.h"

#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

extern char** environ;

namespace anellorun {
namespace {

using namespace std::chrono_literals;

constexpr auto kShellEnds = 3s;  // after the agent has closed its end
constexpr std::size_t kLongestError = 1024;
constexpr std::int64_t kFarthestClockUs = 100'000'000'000'000'000;  // 3,000 years

}  // namespace

RemoteHost::RemoteHost(std::vector<std::string> shell, const Share& share, HostEvents& events, const sigset_t& signals)
    : share_(share),
      events_(events),
      shell_(shell.front()),
      greets_by_(Clock::now() + kGreeting),
      heard_(Clock::now()),
      beat_at_(heard_ + kBeat) {
  for (int rank = share.first; rank < share.first + share.ranks; ++rank) running_.insert(rank);
  Pipe to = make_pipe();
  Pipe from = make_pipe();
  Pipe errors = make_pipe();
  std::vector<char*> words;
  for (std::string& word : shell) words.push_back(word.data());
  words.push_back(nullptr);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
  posix_spawnattr_setsigmask(&attributes, &signals);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, to.from.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, from.to.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, errors.to.get(), STDERR_FILENO);
  const int error = posix_spawnp(&pid_, words[0], &files, &attributes, words.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    pid_ = -1;
    throw std::system_error(error, std::generic_category(), "cannot start '" + shell_ + "'");
  }
  channel_.emplace(std::move(from.from), std::move(to.to), true);
  errors_ = std::move(errors.from);
  make_nonblocking(errors_);
}

RemoteHost::~RemoteHost() {
  if (pid_ < 0) return;
  channel_->close();
  kill(pid_, SIGTERM);
  const auto end = Clock::now() + kShellEnds;
  while (waitpid(pid_, nullptr, WNOHANG) == 0) {
    if (Clock::now() > end) kill(pid_, SIGKILL);
    usleep(10'000);
  }
}

void RemoteHost::send_job(const JobOrder& order, const Secret& secret) {
  Writer writer;
  put_order(writer, order, secret);
  channel_->send(Kind::job, writer);
}

void RemoteHost::ask_offers(const WantedInterfaces& interfaces, const std::string& ports) {
  channel_->send(Kind::offer, Writer().put(interfaces.variable).put(interfaces.value).put(ports));
}

void RemoteHost::ask_probe(const std::string& nonce, const std::vector<MeetingPlace>& places) {
  probed_.reset();
  Writer writer;
  writer.put(nonce).put(static_cast<std::uint32_t>(places.size()));
  for (const MeetingPlace& place : places) writer.put(place.address).put(place.port);
  channel_->send(Kind::probe, writer);
}

void RemoteHost::start(const MeetingPlace& place) {
  asked_to_start_ = true;
  channel_->send(Kind::start, Writer().put(place.address).put(place.port));
}

void RemoteHost::give_input(std::string_view bytes) {
  input_given_ += bytes.size();
  channel_->send(Kind::input, Writer().put(bytes));
}

void RemoteHost::note_taken() {
  if (ending_) return;
  for (const Stream stream : {kOutput, kErrors}) {
    if (events_.unread(stream) && !told_unread_[stream]) {
      told_unread_[stream] = true;
      channel_->send(Kind::unread, Writer().put(static_cast<int>(stream)));
    }
    if (to_take_[stream] == 0 || events_.full(stream)) continue;
    channel_->send(Kind::taken,
                   Writer().put(static_cast<int>(stream)).put(static_cast<std::uint32_t>(to_take_[stream])));
    to_take_[stream] = 0;
  }
}

void RemoteHost::watch(std::vector<pollfd>& into) {
  note_taken();
  into.push_back({ending_ ? -1 : channel_->from(), POLLIN, 0});
  into.push_back({!ending_ && channel_->pending() ? channel_->to() : -1, POLLOUT, 0});
  into.push_back({errors_.get(), POLLIN, 0});
}

void RemoteHost::take(const pollfd* entries) {
  if (entries[2].revents != 0) take_errors();
  if (entries[1].revents != 0) channel_->write_some();
  if (entries[0].revents == 0) return;
  try {
    const bool open = channel_->read_some();
    heard_ = Clock::now();
    while (const auto frame = channel_->next()) take_frame(*frame);
    if (!open) give_up("", false);
  } catch (const WrongFrame& wrong) {
    give_up(wrong.what(), true);
  }
}

void RemoteHost::take_errors() {
  std::array<char, 4096> buffer;
  ssize_t got;
  while ((got = ::read(errors_.get(), buffer.data(), buffer.size())) > 0) {
    partial_error_.append(buffer.data(), static_cast<std::size_t>(got));
    for (std::size_t end;
         (end = partial_error_.find('\n')) != std::string::npos || partial_error_.size() > kLongestError;) {
      last_error_ = partial_error_.substr(0, std::min(end, kLongestError));
      partial_error_.erase(0, last_error_.size() + (end <= kLongestError ? 1 : 0));
      if (!last_error_.empty() && last_error_.back() == '\r') last_error_.pop_back();
      events_.said(share_, last_error_);
    }
  }
  if (got == 0 || (errno != EAGAIN && errno != EINTR)) errors_.close();
}

int RemoteHost::own_rank(Reader& reader) const {
  const int rank = reader.integer(share_.first + share_.ranks - 1);
  if (!share_.has(rank)) throw WrongFrame();
  return rank;
}

void RemoteHost::take_frame(const Frame& frame) {
  Reader reader(frame.body);
  if (!greeted_ && frame.kind != Kind::hello && frame.kind != Kind::refused) throw WrongFrame();
  switch (frame.kind) {
    case Kind::hello:
      if (reader.number() != kAgentVersion) {
        return give_up("it has another version of anellorun; install the same one on all hosts", true);
      }
      host_ = reader.text();
      greeted_ = true;
      break;
    case Kind::offers: {
      nonce_ = reader.text();
      offers_.emplace(reader.count());
      for (MeetingPlace& place : *offers_) {
        place.address = reader.text();
        place.port = reader.integer(65535);
      }
      break;
    }
    case Kind::probed:
      probed_.emplace(reader.count());
      for (Reach& each : *probed_) {
        each.error = reader.integer(4095);
        each.microseconds = reader.number();
        each.clock_ahead_us = reader.signed_number(kFarthestClockUs);
      }
      break;
    case Kind::started: started_ = true; break;
    case Kind::bound: {
      const int rank = own_rank(reader);
      events_.bound(rank, std::string(reader.text()));
      break;
    }
    case Kind::threads: {
      const int rank = own_rank(reader);
      ThreadsNote note;
      note.ranks = reader.integer(kMaxRanks);
      if (note.ranks < 1) throw WrongFrame();  // processors are divided by it
      note.processors = reader.integer(INT32_MAX);
      note.threads = reader.integer(INT32_MAX);
      note.alike = reader.integer(1) == 1;
      events_.threads(rank, note);
      break;
    }
    case Kind::output: {
      const int rank = own_rank(reader);
      const auto stream = static_cast<Stream>(reader.integer(kStreams - 1));
      const std::string_view bytes = reader.text();
      to_take_[stream] += bytes.size();
      events_.output(rank, stream, bytes);
      break;
    }
    case Kind::ended: {
      const int rank = own_rank(reader);
      const auto pid = static_cast<pid_t>(reader.integer(INT32_MAX));
      const int status = reader.integer(0xffff);
      if (running_.erase(rank) == 0) throw WrongFrame();
      events_.ended(rank, pid, status);
      break;
    }
    case Kind::gone: events_.gone(own_rank(reader)); break;
    case Kind::told: {
      const int rank = own_rank(reader);
      events_.told(rank, reader.text());
      break;
    }
    case Kind::input_taken: {
      const std::size_t bytes = reader.number();
      input_given_ -= std::min(bytes, input_given_);
      break;
    }
    case Kind::done:
      over_ = true;
      give_up("", false);
      break;
    case Kind::refused: give_up(std::string(reader.text()), true); break;
    case Kind::cannot_start: {
      const int code = reader.integer(4095);
      throw CannotStart{code, std::string(reader.text()), share_.host};
    }
    case Kind::beat: break;
    default: throw WrongFrame();
  }
}

// Nothing more is expected from the agent. The shell's exit code is awaited, because it says the most.
void RemoteHost::give_up(std::string why, bool kill_now) {
  if (ending_) return;
  ending_ = true;
  why_ = std::move(why);
  channel_->close();
  if (kill_now && pid_ >= 0) kill(pid_, SIGTERM);
  kill_at_ = Clock::now() + kShellEnds;
  child_ended();
}

void RemoteHost::child_ended() {
  if (pid_ < 0 || waitpid(pid_, &status_, WNOHANG) != pid_) return;
  pid_ = -1;
  kill_at_.reset();
  if (!ending_) {
    // It may have written its last frames just before.
    try {
      while (channel_->read_some()) {
        pollfd more{channel_->from(), POLLIN, 0};
        if (poll(&more, 1, 0) <= 0) break;
      }
      while (const auto frame = channel_->next()) take_frame(*frame);
    } catch (const WrongFrame& wrong) {
      why_ = wrong.what();
    }
    ending_ = true;
    channel_->close();
  }
  conclude();
}

void RemoteHost::conclude() {
  if (errors_) take_errors();
  if (!partial_error_.empty()) events_.said(share_, last_error_ = partial_error_);
  errors_.close();
  partial_error_.clear();
  if (over_) return;
  lost_ = true;
  if (why_.empty()) {
    why_ = greeted_ ? "the connection to its agent is gone: " : "no agent could be started: ";
    why_ += shell_ + " " + describe_end(status_);
    if (!last_error_.empty()) why_ += " (" + last_error_ + ")";
    if (!greeted_ && WIFEXITED(status_) && (WEXITSTATUS(status_) == 127 || WEXITSTATUS(status_) == 126))
      why_ += "; anellorun must be there under the same path, or where --agent-path says";
  }
  running_.clear();
  events_.lost(share_, why_);
}

Clock::time_point RemoteHost::next_word_due() const { return greeted_ ? heard_ + kSilence : greets_by_; }

std::optional<Clock::time_point> RemoteHost::deadline() const {
  if (kill_at_) return kill_at_;
  if (pid_ < 0) return std::nullopt;
  return std::min(beat_at_, next_word_due());
}

void RemoteHost::keep_deadlines(Clock::time_point now) {
  if (pid_ < 0) return;
  if (kill_at_) {
    if (now < *kill_at_) return;
    kill(pid_, SIGKILL);
    kill_at_ = now + kShellEnds;
    return;
  }
  if (now >= beat_at_) {
    if (!channel_->pending()) channel_->send(Kind::beat);
    beat_at_ = now + kBeat;
  }
  if (now < next_word_due()) return;
  give_up(greeted_ ? "nothing has been heard from its agent for " + std::to_string(kSilence / 1s) + " s"
                   : "its agent did not answer within " + std::to_string(kGreeting / 1s) + " s",
          true);
}

void RemoteHost::stood_still(Clock::duration time) {
  greets_by_ += time;
  heard_ += time;
  if (kill_at_) *kill_at_ += time;
}

void RemoteHost::signal(int number, bool also_orphans) {
  if (!asked_to_start_) {
    if (number == SIGKILL && pid_ >= 0) kill(pid_, SIGKILL);
    if (number == SIGKILL || ends_a_job(number)) give_up("the job has ended before its ranks could start", true);
    return;
  }
  if (!ending_) channel_->send(Kind::signal, Writer().put(number).put(also_orphans ? 1 : 0));
  if (number == SIGSTOP && channel_) channel_->write_some();  // before this process stands still itself
}

void RemoteHost::note_gone(int rank) {
  if (!ending_) channel_->send(Kind::gone, Writer().put(rank));
}

void RemoteHost::tell(int rank, std::string_view message) {
  if (!ending_) channel_->send(Kind::tell, Writer().put(rank).put(message));
}

void RemoteHost::finish() {
  if (!ending_) channel_->send(Kind::finish);
}

}  // namespace anellorun
