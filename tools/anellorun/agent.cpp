#include "anellorun/agent.h"

#include "anellorun/options.h"

#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>

namespace anellorun {
namespace {

using namespace std::chrono_literals;

constexpr auto kProbeTime = 5s;

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

// The frames' streams, while the standard ones lead nowhere: no rank and no message of a library gets in between.
Channel take_standard_streams() {
  Descriptor from(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
  Descriptor to(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
  const Descriptor nothing(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!from || !to || !nothing || dup2(nothing.get(), STDIN_FILENO) < 0 || dup2(nothing.get(), STDOUT_FILENO) < 0)
    fail("dup2");
  return Channel(std::move(from), std::move(to), false);
}

}  // namespace

Agent::Agent()
    : channel_(take_standard_streams()), signals_(kEndingSignals, {SIGPIPE}), heard_(Clock::now()), beat_at_(heard_) {
  channel_.send_raw(kPreamble);
  channel_.send(Kind::hello, Writer().put(kAgentVersion).put(host_name()));
}

int Agent::run() {
  try {
    while (!over_) poll_once();
  } catch (const CannotStart& failure) {
    channel_.send(Kind::cannot_start, Writer().put(failure.code).put(failure.program));
  } catch (const std::exception& failure) {
    refuse(failure.what());
  }
  ranks_.reset();
  // The last frames: a launcher that does not read has this long.
  const auto end = Clock::now() + 5s;
  while (channel_.pending() && Clock::now() < end) {
    pollfd watched{channel_.to(), POLLOUT, 0};
    poll(&watched, 1, 100);
    channel_.write_some();
  }
  return 0;
}

void Agent::poll_once() {
  std::vector<pollfd> watched{{signals_.descriptor(), POLLIN, 0},
                              {launcher_gone_ ? -1 : channel_.from(), POLLIN, 0},
                              {channel_.pending() ? channel_.to() : -1, POLLOUT, 0},
                              {input_ && !input_waiting_.empty() ? input_.get() : -1, POLLOUT, 0}};
  // What is watched may change while frames are taken, so it is noted where the entries of each begin.
  const auto watch = [&watched](auto* what) {
    const std::size_t begin = watched.size();
    if (what != nullptr) what->watch(watched);
    return begin;
  };
  Offers* const offers = offers_ ? &*offers_ : nullptr;
  Probe* const probe = probe_ ? &*probe_ : nullptr;
  LocalRanks* const ranks = ranks_.get();
  const std::size_t of_offers = watch(offers), of_probe = watch(probe), of_ranks = watch(ranks);

  auto next = beat_at_;
  if (ranks != nullptr && ranks->deadline()) next = std::min(next, *ranks->deadline());
  if (probe != nullptr) next = std::min(next, probe->deadline());
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()).count();
  if (poll(watched.data(), watched.size(), static_cast<int>(std::clamp<long long>(wait, 0, 60'000))) < 0) {
    if (errno != EINTR) fail("poll");
    return;
  }
  if (offers != nullptr) offers->take(watched.data() + of_offers);
  if (probe != nullptr) probe->take(watched.data() + of_probe);
  if (ranks != nullptr) ranks->take(watched.data() + of_ranks);
  if (watched[0].revents != 0) take_signals();
  if (watched[3].revents != 0) write_input();
  if (watched[1].revents != 0) {
    if (channel_.read_some()) {
      heard_ = Clock::now();
      launcher_stopped_ = false;
      while (const auto frame = channel_.next()) take_frame(*frame);
    } else {
      end_all();
    }
  }
  const auto now = Clock::now();
  if (now >= beat_at_) {
    if (!channel_.pending()) channel_.send(Kind::beat);
    beat_at_ = now + kBeat;
    if (now - heard_ > kSilence && !launcher_stopped_) end_all();
  }
  if (probe_ && probe_->done(now)) tell_probed();
  if (ranks_) {
    ranks_->keep_deadlines(now);
    if (ranks_->done()) {
      if (!launcher_gone_) channel_.send(Kind::done);
      over_ = true;
    }
  } else if (launcher_gone_) {
    over_ = true;
  }
  channel_.write_some();
}

void Agent::take_frame(const Frame& frame) {
  Reader reader(frame.body);
  const auto need_ranks = [this] {
    if (!ranks_) throw WrongFrame();
  };
  switch (frame.kind) {
    case Kind::job: take_job(reader); break;
    case Kind::offer: {
      const std::string variable(reader.text()), interface(reader.text());
      offers_.emplace(variable, interface, std::string(reader.text()));
      tell_offers();
      break;
    }
    case Kind::probe: begin_probe(reader); break;
    case Kind::start: {
      MeetingPlace place;
      place.address = reader.text();
      place.port = reader.integer(65535);
      start(std::move(place));
      break;
    }
    case Kind::signal: {
      need_ranks();
      const int number = reader.integer(SIGRTMAX);
      launcher_stopped_ = number == SIGSTOP;
      ranks_->signal(number, reader.number() != 0);
      break;
    }
    case Kind::gone:
      need_ranks();
      ranks_->note_gone(reader.integer(order_.share.world - 1));
      break;
    case Kind::tell: {
      need_ranks();
      const int rank = reader.integer(kMaxWorkers);
      ranks_->tell(rank, reader.text());
      break;
    }
    case Kind::taken: {
      const int stream = reader.integer(kStreams - 1);
      const std::size_t bytes = reader.number();
      untaken_[static_cast<std::size_t>(stream)] -= std::min(bytes, untaken_[static_cast<std::size_t>(stream)]);
      break;
    }
    case Kind::unread: unread_[static_cast<std::size_t>(reader.integer(kStreams - 1))] = true; break;
    case Kind::input: {
      const std::string_view bytes = reader.text();
      input_waiting_ += bytes;
      input_ends_ = input_ends_ || bytes.empty();
      write_input();
      break;
    }
    case Kind::finish:
      need_ranks();
      ranks_->finish();
      break;
    case Kind::beat: break;
    default: throw WrongFrame();
  }
}

void Agent::tell_offers() {
  Writer writer;
  writer.put(offers_->nonce()).put(static_cast<std::uint32_t>(offers_->places().size()));
  for (const MeetingPlace& place : offers_->places()) writer.put(place.address).put(place.port);
  channel_.send(Kind::offers, writer);
}

void Agent::begin_probe(Reader reader) {
  if (probe_) throw WrongFrame();
  const std::string nonce(reader.text());
  std::vector<MeetingPlace> places(reader.count());
  for (MeetingPlace& place : places) {
    place.address = reader.text();
    place.port = reader.integer(65535);
  }
  probe_.emplace(nonce, places, kProbeTime);
}

void Agent::tell_probed() {
  Writer writer;
  writer.put(static_cast<std::uint32_t>(probe_->reached().size()));
  for (const Reach& each : probe_->reached())
    writer.put(each.error).put(each.microseconds).put_signed(each.clock_ahead_us);
  channel_.send(Kind::probed, writer);
  probe_.reset();
}

void Agent::take_job(Reader reader) {
  if (secret_) throw WrongFrame();
  order_ = take_order(reader, secret_);
  for (const std::string& variable : order_.environment) {
    const auto equals = variable.find('=');
    if (equals != std::string::npos) setenv(variable.substr(0, equals).c_str(), variable.c_str() + equals + 1, 1);
  }
  if (chdir(order_.folder.c_str()) != 0) {
    throw std::runtime_error("the folder " + order_.folder + ": " + strerror(errno) +
                             "; ranks start in the folder of " + "the launcher, or in that of --wdir");
  }
}

void Agent::start(MeetingPlace place) {
  if (!secret_ || ranks_) throw WrongFrame();
  offers_.reset();  // its port is rank 0's now
  job_ = std::make_unique<Job>(order_.name, secret_.get(), std::move(place), order_.share.world);
  ranks_ = std::make_unique<LocalRanks>(order_.share, *job_, static_cast<Events&>(*this));
  Pipe input;
  if (order_.share.has(0)) {
    input = make_pipe();
    make_nonblocking(input.to);
  }
  ranks_->start(order_.share.has(0) ? input.from.get() : -1, signals_.original());
  input_ = std::move(input.to);
  channel_.send(Kind::started);
}

void Agent::take_signals() {
  while (const auto info = signals_.next()) {
    if (info->ssi_signo != SIGCHLD) {
      refuse(std::string("its agent got SIG") + sigabbrev_np(static_cast<int>(info->ssi_signo)));
      end_all();
    } else if (ranks_) {
      ranks_->child_ended();
    }
  }
}

void Agent::write_input() {
  std::size_t taken = 0;
  while (!input_waiting_.empty()) {
    const ssize_t written = input_ ? write(input_.get(), input_waiting_.data(), input_waiting_.size()) : -1;
    if (written < 0 && input_ && errno == EINTR) continue;
    if (written < 0 && input_ && errno == EAGAIN) break;
    if (written < 0) input_.close();  // rank 0 does not read it
    const std::size_t bytes = written < 0 ? input_waiting_.size() : static_cast<std::size_t>(written);
    input_waiting_.erase(0, bytes);
    taken += bytes;
  }
  if (taken > 0) channel_.send(Kind::input_taken, Writer().put(static_cast<std::uint32_t>(taken)));
  if (input_waiting_.empty() && input_ends_) input_.close();
}

void Agent::refuse(const std::string& why) { channel_.send(Kind::refused, Writer().put(why)); }

void Agent::end_all() {
  if (launcher_gone_) return;
  launcher_gone_ = true;
  unread_ = {true, true};
  if (ranks_) ranks_->finish();
}

void Agent::bound(int rank, const std::string& processors) {
  channel_.send(Kind::bound, Writer().put(rank).put(processors));
}

void Agent::threads(int rank, const ThreadsNote& note) {
  channel_.send(Kind::threads,
                Writer().put(rank).put(note.ranks).put(note.processors).put(note.threads).put(note.alike ? 1 : 0));
}

void Agent::output(int rank, Stream stream, std::string_view bytes) {
  untaken_[stream] += bytes.size();
  channel_.send(Kind::output, Writer().put(rank).put(static_cast<int>(stream)).put(bytes));
}

void Agent::ended(int rank, pid_t pid, int status) {
  if (rank == 0) input_.close();
  channel_.send(Kind::ended, Writer().put(rank).put(static_cast<int>(pid)).put(status));
}

void Agent::gone(int rank) { channel_.send(Kind::gone, Writer().put(rank)); }

void Agent::told(int rank, std::string_view message) { channel_.send(Kind::told, Writer().put(rank).put(message)); }

}  // namespace anellorun
