#include "bootstrap/pmi.h"

#include "base/text.h"

#include <algorithm>

namespace anello::bootstrap {

std::string pmi_field(std::string_view line, std::string_view name, char between) {
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t end = std::min(line.find(between, at), line.size());
    const std::string_view word = line.substr(at, end - at);
    if (word.size() > name.size() && word.substr(0, name.size()) == name && word[name.size()] == '=')
      return std::string(word.substr(name.size() + 1));
    at = end + 1;
  }
  return {};
}

// Sends a line and returns the answer, whose command must be `answer`.
std::string Pmi::ask(const std::string& question, std::string_view answer, const Deadline& deadline) {
  channel_.send("cmd=" + question + "\n", deadline);
  const std::string late = answer == "barrier_out" ? "not all ranks came in time" : text("no answer to ", question);
  const std::string said = channel_.receive_line(late, deadline);
  if (pmi_field(said, "cmd") != answer) PmiChannel::fail(text("the answer to \"", question, "\" is \"", said, "\""));
  return said;
}

const std::string& Pmi::space(const Deadline& deadline) {
  if (space_.empty()) space_ = pmi_field(ask("get_my_kvsname", "my_kvsname", deadline), "kvsname");
  if (space_.empty()) PmiChannel::fail("it has no name");
  return space_;
}

void Pmi::put(const std::string& key, const std::string& value, const Deadline& deadline) {
  const std::string question = text("put kvsname=", space(deadline), " key=", key, " value=", value);
  const std::string said = ask(question, "put_result", deadline);
  if (pmi_field(said, "rc") != "0") PmiChannel::fail(text("it refused the key ", key, ": ", said));
}

std::string Pmi::get(const std::string& key, const Deadline& deadline) {
  const std::string said = ask(text("get kvsname=", space(deadline), " key=", key), "get_result", deadline);
  if (pmi_field(said, "rc") != "0") PmiChannel::fail(text("it has no key ", key, ": ", said));
  return pmi_field(said, "value");
}

void Pmi::barrier(const Deadline& deadline) { ask("barrier_in", "barrier_out", deadline); }

void Pmi::finalise(const Deadline& deadline) { ask("finalize", "finalize_ack", deadline); }

}  // namespace anello::bootstrap
