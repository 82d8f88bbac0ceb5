#include "bootstrap/pmi2.h"

#include "base/error.h"
#include "base/text.h"
#include "bootstrap/pmi.h"

#include <charconv>
#include <cstdio>
#include <utility>

namespace anello::bootstrap {
namespace {

constexpr std::size_t kLengthBytes = 6;

// Slurm writes the digits to the left, Hydra to the right.
std::size_t length_from(std::string_view digits) {
  const std::string whole(digits);
  while (!digits.empty() && digits.front() == ' ') digits.remove_prefix(1);
  while (!digits.empty() && digits.back() == ' ') digits.remove_suffix(1);
  std::size_t length = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), length);
  if (error != std::errc{} || end != digits.data() + digits.size() || length == 0)
    PmiChannel::fail(text("the launcher's answer begins with \"", whole, "\" instead of its length"));
  if (length > PmiChannel::kMostBytes)
    PmiChannel::fail(
        text("the launcher's answer has ", length, " bytes, and at most ", PmiChannel::kMostBytes, " can be right"));
  return length;
}

}  // namespace

std::string Pmi2::exchange(std::string_view command, const std::string& rest, const Deadline& deadline) {
  const std::string question = text("cmd=", command, ";", rest);
  char length[kLengthBytes + 1];
  std::snprintf(length, sizeof length, "%6u", static_cast<unsigned>(question.size()) % 1'000'000);
  channel_.send(length + question, deadline);
  const std::string late = command == "kvs-fence" ? "not all ranks came in time" : text("no answer to ", command);
  const std::size_t bytes = length_from(channel_.receive(kLengthBytes, late, deadline));
  const std::string said = channel_.receive(bytes, late, deadline);
  const auto field = [&](std::string_view name) { return pmi_field(said, name, ';'); };
  if (field("cmd") != text(command, "-response") || field("rc") != "0")
    PmiChannel::fail(text("the answer to \"", command, "\" is \"", said, "\""));
  return said;
}

void Pmi2::initialise(const Deadline& deadline) {
  channel_.send("cmd=init pmi_version=2 pmi_subversion=0\n", deadline);
  const std::string said = channel_.receive_line("no answer to init", deadline);
  if (pmi_field(said, "cmd") != "response_to_init" || pmi_field(said, "rc") != "0" ||
      pmi_field(said, "pmi_version") != "2")
    PmiChannel::fail(text("the launcher does not speak PMI-2: \"", said, "\""));
  exchange("fullinit", text("pmijobid=", job_, ";pmirank=", rank_, ";threaded=FALSE;"), deadline);
}

std::string Pmi2::ask(std::string_view command, const std::string& rest, const Deadline& deadline) {
  if (state_ == State::lost) PmiChannel::fail("an earlier question of this process had no right answer");
  const State before = std::exchange(state_, State::lost);
  if (before == State::fresh) initialise(deadline);
  std::string said = exchange(command, rest, deadline);
  state_ = State::ready;
  return said;
}

void Pmi2::put(const std::string& key, const std::string& value, const Deadline& deadline) {
  ask("kvs-put", text("key=", key, ";value=", value, ";"), deadline);
}

std::string Pmi2::get(const std::string& key, const Deadline& deadline) {
  const std::string said = ask("kvs-get", text("jobid=", job_, ";srcid=-1;key=", key, ";"), deadline);
  if (pmi_field(said, "found", ';') != "TRUE") PmiChannel::fail(text("it has no key ", key, ": ", said));
  return pmi_field(said, "value", ';');
}

void Pmi2::barrier(const Deadline& deadline) { ask("kvs-fence", {}, deadline); }

void Pmi2::finalise(const Deadline& deadline) {
  if (std::exchange(state_, State::lost) == State::ready) exchange("finalize", {}, deadline);
}

}  // namespace anello::bootstrap
