#include "recorder/dump.h"

#include "base/error.h"
#include "base/text.h"
#include "base/uncancelled.h"
#include "base/unique_fd.h"

#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace anello::recorder {
namespace {

using json = nlohmann::ordered_json;
constexpr int kFormat = 1;

std::string hexadecimal(std::uint64_t number) {
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(number));
  return digits;
}

constexpr const char* kWhats[] = {"call", "data", "room"};
constexpr const char* kLives[] = {"runs", "silent", "stopped", "lost"};

json time_of(std::int64_t ms) { return ms == 0 ? json(nullptr) : json(ms); }

void add_state(json& to, bool ended, anello_result_t result, const Snapshot::Times& times) {
  to["state"] = !ended ? "in flight" : result == ANELLO_OK ? "ended" : "failed";
  if (ended && result != ANELLO_OK) to["result"] = int(result);
  to["seen_ms"] = time_of(times.seen_ms);
  to["ended_ms"] = time_of(times.ended_ms);
}

json of_collective(const Snapshot::Collective& each) {
  const CallRecord& call = each.call;
  json out = {{"sequence", call.sequence},
              {"call", call.describe()},
              {"kind", call.kind},
              {"dtype", call.dtype},
              {"op", call.op},
              {"root", call.root},
              {"count", call.count},
              {"algorithm", call.algorithm},
              {"refused", call.refused},
              {"label", call.label().c_str()},
              {"digest", hexadecimal(call.digest)}};
  add_state(out, each.ended, each.result, each.times);
  return out;
}

json of_messages(const std::vector<Snapshot::Message>& messages) {
  json list = json::array();
  for (const Snapshot::Message& each : messages) {
    json& out = list.emplace_back();
    out = {
        {"number", each.number}, {"peer", each.message.peer}, {"tag", each.message.tag}, {"bytes", each.message.bytes}};
    add_state(out, each.ended, each.result, each.times);
  }
  return list;
}

json of_waits(const Waits& waits) {
  json peers = json::array();
  for (int i = 0; i < waits.peers; ++i) {
    const Waits::Peer& peer = waits.peer[i];
    const auto what = std::size_t(peer.what), life = std::size_t(peer.life);
    peers.push_back({{"rank", peer.rank},
                     {"world_rank", peer.world_rank},
                     {"for", kWhats[what < std::size(kWhats) ? what : 0]},
                     {"life", kLives[life < std::size(kLives) ? life : 0]}});
  }
  return {{"sequence", waits.sequence},
          {"steps", waits.steps},
          {"steps_ended", waits.steps_ended},
          {"peers", peers},
          {"more", waits.more}};
}

// ---- Reading ----

template <class Number>
Number number_in(const json& from, const char* name) {
  return from.at(name).get<Number>();
}

std::int64_t time_in(const json& from, const char* name) {
  return from.at(name).is_null() ? 0 : from.at(name).get<std::int64_t>();
}

template <class Each>
void take_state(const json& from, Each& into) {
  into.ended = from.at("state") != "in flight";
  into.result = static_cast<anello_result_t>(from.value("result", 0));
  into.times = {time_in(from, "seen_ms"), time_in(from, "ended_ms")};
}

std::uint64_t from_hexadecimal(const json& from) { return std::stoull(from.get<std::string>(), nullptr, 16); }

template <std::size_t Known>
std::size_t word_in(const json& from, const char* const (&words)[Known]) {
  for (std::size_t i = 0; i < Known; ++i)
    if (from == words[i]) return i;
  throw std::runtime_error("it has the unknown word " + from.dump());
}

std::vector<Snapshot::Message> messages_in(const json& list) {
  std::vector<Snapshot::Message> messages;
  for (const json& each : list) {
    Snapshot::Message message;
    message.number = number_in<std::uint64_t>(each, "number");
    message.message = {number_in<std::int32_t>(each, "peer"), number_in<std::int32_t>(each, "tag"),
                       number_in<std::uint64_t>(each, "bytes")};
    take_state(each, message);
    messages.push_back(message);
  }
  return messages;
}

Snapshot parsed(const json& from) {
  if (number_in<int>(from, "format") != kFormat) throw std::runtime_error("it has another version's format");
  Snapshot taken;
  Identity& who = taken.who;
  taken.version = from.at("anello").get<std::string>();
  who.job = from_hexadecimal(from.at("job"));
  who.communicator = from_hexadecimal(from.at("communicator"));
  who.rank = number_in<std::int32_t>(from, "rank");
  who.size = number_in<std::int32_t>(from, "size");
  who.world_rank = number_in<std::int32_t>(from, "world_rank");
  who.world_size = number_in<std::int32_t>(from, "world_size");
  who.pid = number_in<std::int64_t>(from, "pid");
  std::strncpy(who.host, from.at("host").get<std::string>().c_str(), sizeof who.host - 1);
  taken.taken_ms = number_in<std::int64_t>(from, "taken_ms");
  if (who.size < 1 || who.rank < 0 || who.rank >= who.size) throw std::runtime_error("its rank is none");
  if (const json& error = from.at("error"); !error.is_null()) {
    taken.error = {static_cast<anello_result_t>(number_in<int>(error, "code")), number_in<int>(error, "peer"),
                   number_in<std::int64_t>(error, "at_ms"), error.at("text").get<std::string>()};
  }
  if (const json& waits = from.at("waits"); !waits.is_null()) {
    Waits into;
    into.sequence = number_in<std::uint32_t>(waits, "sequence");
    into.steps = number_in<std::int32_t>(waits, "steps");
    into.steps_ended = number_in<std::int32_t>(waits, "steps_ended");
    into.more = number_in<std::int32_t>(waits, "more");
    for (const json& peer : waits.at("peers")) {
      if (into.peers == Waits::kMost) break;
      into.peer[into.peers++] = {number_in<std::int32_t>(peer, "rank"), number_in<std::int32_t>(peer, "world_rank"),
                                 Waits::What(word_in(peer.at("for"), kWhats)),
                                 Waits::Life(word_in(peer.at("life"), kLives))};
    }
    taken.waits = into;
  }
  for (const auto& [kind, total] : from.at("totals").items())
    taken.totals[kind] = {number_in<std::uint64_t>(total, "calls"), number_in<std::uint64_t>(total, "bytes")};
  for (const json& each : from.at("collectives")) {
    Snapshot::Collective collective;
    CallRecord& call = collective.call;
    call.sequence = number_in<std::uint32_t>(each, "sequence");
    call.kind = number_in<std::int32_t>(each, "kind");
    call.dtype = number_in<std::int32_t>(each, "dtype");
    call.op = number_in<std::int32_t>(each, "op");
    call.root = number_in<std::int32_t>(each, "root");
    call.count = number_in<std::uint64_t>(each, "count");
    call.algorithm = number_in<std::uint64_t>(each, "algorithm");
    call.refused = number_in<std::int16_t>(each, "refused");
    call.digest = from_hexadecimal(each.at("digest"));
    call.set_label(Label(each.at("label").get<std::string>().c_str()));
    take_state(each, collective);
    taken.collectives.push_back(collective);
  }
  taken.sent = messages_in(from.at("sent"));
  taken.received = messages_in(from.at("received"));
  return taken;
}

void write_all(int file, const std::string& content, const std::string& path) {
  for (std::size_t done = 0; done < content.size();) {
    const ssize_t wrote = ::write(file, content.data() + done, content.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) throw system_error(text("write to ", path).c_str(), errno);
    done += std::size_t(wrote);
  }
}

}  // namespace

std::string dump_name(const Snapshot& taken) {
  char communicator[17];
  std::snprintf(communicator, sizeof communicator, "%llx", static_cast<unsigned long long>(taken.who.communicator));
  return text("anello-", hexadecimal(taken.who.job), "-rank", taken.who.world_rank, "-comm", communicator, ".json");
}

std::string as_json(const Snapshot& taken) {
  const Identity& who = taken.who;
  json out = {{"anello", taken.version},
              {"format", kFormat},
              {"job", hexadecimal(who.job)},
              {"communicator", hexadecimal(who.communicator)},
              {"rank", who.rank},
              {"size", who.size},
              {"world_rank", who.world_rank},
              {"world_size", who.world_size},
              {"host", who.host},
              {"pid", who.pid},
              {"taken_ms", taken.taken_ms}};
  out["error"] = nullptr;
  if (taken.error) {
    out["error"] = {{"code", int(taken.error->code)},
                    {"name", result_name(taken.error->code)},
                    {"peer", taken.error->peer},
                    {"at_ms", taken.error->at_ms},
                    {"text", taken.error->text}};
  }
  out["waits"] = taken.waits ? of_waits(*taken.waits) : json(nullptr);
  out["totals"] = json::object();
  for (const auto& [kind, total] : taken.totals) out["totals"][kind] = {{"calls", total.calls}, {"bytes", total.bytes}};
  out["collectives"] = json::array();
  for (const Snapshot::Collective& each : taken.collectives) out["collectives"].push_back(of_collective(each));
  out["sent"] = of_messages(taken.sent);
  out["received"] = of_messages(taken.received);
  return out.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

Snapshot from_json(const std::string& content) {
  try {
    return parsed(json::parse(content));
  } catch (const json::exception&) {
    throw Error(ANELLO_ERR_CORRUPT, "it is no dump of Anello's recorder, or is cut off");
  } catch (const std::exception& failure) {
    throw Error(ANELLO_ERR_CORRUPT, text("it is no dump of Anello's recorder, or is cut off: ", failure.what()));
  }
}

std::string write_dump(const Snapshot& taken, const std::string& folder) {
  const Uncancelled whole;
  if (::mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST) throw system_error(text("mkdir ", folder).c_str(), errno);
  const std::string path = folder + "/" + dump_name(taken);
  const std::string unfinished = text(path, ".", ::syscall(SYS_gettid), ".tmp");
  {
    const UniqueFd file(::open(unfinished.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644));
    if (!file) throw system_error(text("open ", unfinished).c_str(), errno);
    try {
      write_all(file.get(), as_json(taken), unfinished);
    } catch (...) {
      ::unlink(unfinished.c_str());
      throw;
    }
  }
  if (::rename(unfinished.c_str(), path.c_str()) != 0) {
    const int cause = errno;
    ::unlink(unfinished.c_str());
    throw system_error(text("rename to ", path).c_str(), cause);
  }
  return path;
}

}  // namespace anello::recorder
