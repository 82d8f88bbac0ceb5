// Describes as JSON what a call would do.
#include "api/arguments.h"
#include "api/call_of.h"
#include "api/tables.h"
#include "base/custom_op.h"
#include "base/dtype.h"
#include "base/kind.h"
#include "base/text.h"
#include "communicator/amounts.h"
#include "messaging/frame.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>

using namespace anello;
using namespace anello::api;
using json = nlohmann::ordered_json;

namespace {

// Stand-ins for buffers that the caller omitted: addresses without memory, too far apart to overlap.
void stand_in(anello_call_t& call) {
  if (call.sendbuf == nullptr) call.sendbuf = reinterpret_cast<const void*>(std::uintptr_t{1} << 63);
  if (call.recvbuf == nullptr) call.recvbuf = reinterpret_cast<void*>(std::uintptr_t{4096});
}

json of_message(const anello_call_t& call, Communicator& communicator) {
  const Amounts amounts = amounts_of(call, communicator.rank(), communicator.size());
  const std::size_t sent = amounts.in * dtype_bytes(call.dtype);
  const std::size_t received = amounts.out * dtype_bytes(call.dtype);
  json out = {{"peer", call.peer}, {"tag", call.tag}, {"bytes", {{"sent", sent}, {"received", received}}}};
  out["transport"] = call.peer < 0 ? communicator.transports() : communicator.transport_to(call.peer);
  if (call.kind != ANELLO_PROBE) {
    const std::size_t most_eager = call.peer < 0 ? messaging::kMostEagerBytes : communicator.most_eager(call.peer);
    out["protocol"] = std::max(sent, received) <= most_eager ? "eager" : "rendezvous";
  }
  const executor::TakenMessages taken = communicator.taken_messages();
  out["taken"] = {{"mapped", taken.mapped}, {"read", taken.read}, {"rdma", taken.rdma}};
  return out;
}

json of_rule(const schedule::Rule* rule) {
  if (rule == nullptr) return nullptr;
  const auto bound = [](std::size_t bytes) { return bytes == SIZE_MAX ? json(nullptr) : json(bytes); };
  const bool measured = rule->line > 0;
  return {{"number", measured ? rule->line : int(rule - schedule::rules().data() + 1)},
          {"measured", measured},
          {"algorithm", rule->algorithm},
          {"where", schedule::name(rule->where)},
          {"reach", schedule::name(rule->reach)},
          {"from_bytes", rule->from_bytes},
          {"up_to_bytes", bound(rule->up_to_bytes)},
          {"up_to_bytes_total", bound(rule->up_to_bytes_total)},
          {"up_to_bytes_each", bound(rule->up_to_bytes_each)}};
}

template <class Values>
json by_reach(const Values& values) {
  json out;
  for (std::size_t reach = 0; reach < values.size(); ++reach)
    out[schedule::name(schedule::Reach(reach))] = values[reach];
  return out;
}

json on_devices(const Explanation& found) {
  const auto name = [&](schedule::Space space) {
    const char* const algorithm = found.by_space[std::size_t(space)];
    return algorithm != nullptr ? json(algorithm) : json(nullptr);
  };
  return {{"one_device", name(schedule::Space::one_device)},
          {"devices", name(schedule::Space::devices)},
          {"calls", found.on_devices}};
}

json of_collective(const anello_call_t& call, Communicator& communicator) {
  const Explanation found = communicator.explain(call);
  const std::size_t element = found.call.element_bytes;
  const auto& totals = found.totals;
  json peers = json::array();
  for (const schedule::PeerTotals& peer : totals.peers) {
    peers.push_back({{"rank", peer.peer},
                     {"transport", communicator.transport_to(peer.peer)},
                     {"sent", peer.sent * element},
                     {"received", peer.received * element},
                     {"messages", peer.messages}});
  }
  std::string why = found.decision.why;
  while (!why.empty() && why.back() == ' ') why.pop_back();
  return {{"count", call.count},
          {"dtype", dtype_name(call.dtype)},
          {"op", kind_reduces(call.kind) ? json(op_text(call.op)) : json(nullptr)},
          {"element_bytes", element},
          {"in_place", found.call.in_place},
          {"root", kind_has_root(call.kind) ? json(call.peer) : json(nullptr)},
          {"algorithm", found.decision.choice.algorithm->name},
          {"why", why},
          {"rule", of_rule(found.decision.rule)},
          {"board", found.plan->is_exchange},
          {"chunk_bytes", found.decision.choice.chunk * element},
          {"chunks", found.chunks},
          {"steps", found.plan->schedule.steps.size()},
          {"messages", totals.messages},
          {"bytes",
           {{"sent", totals.sent * element},
            {"received", totals.received * element},
            {"reduced", totals.reduced * element},
            {"copied", totals.copied * element}}},
          {"peers", peers},
          {"expected_seconds", found.seconds ? json(*found.seconds) : json(nullptr)},
          {"cached", found.cached},
          {"by_reach", by_reach(found.by_reach)},
          {"reached", by_reach(found.reached)},
          {"on_devices", on_devices(found)},
          {"taken", {{"rdma", communicator.taken_messages().rdma_steps}}}};
}

std::string explained(const anello_call_t& call, Communicator& communicator) {
  json out = {{"kind", kind_name(call.kind)},
              {"label", Label(call.label).c_str()},
              {"rank", communicator.rank()},
              {"ranks", communicator.size()}};
  out.update(is_message(call.kind) ? of_message(call, communicator) : of_collective(call, communicator));
  // A label may not be valid UTF-8.
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

extern "C" {

anello_result_t anello_explain(anello_comm_t comm, const anello_call_t* asked, char* text_out, size_t capacity,
                               size_t* length) {
  return with(comm, [&](const std::shared_ptr<Communicator>& communicator) -> anello_result_t {
    anello_call_t call;
    if (!complete_call(asked, &call)) {
      throw Error(ANELLO_ERR_ARGUMENT, "anello_explain: call is NULL or its size is not sizeof(anello_call_t)");
    }
    if (length == nullptr || (text_out == nullptr && capacity > 0)) {
      throw Error(ANELLO_ERR_ARGUMENT, text("anello_explain: ", length == nullptr ? "length" : "json", " is NULL"));
    }
    stand_in(call);
    if (const Error refused = check(call, *communicator))
      return failed(comm, refused, {call.kind, -1, Label(call.label)});
    const std::string whole = explained(call, *communicator);
    *length = whole.size();
    if (text_out == nullptr) return ANELLO_OK;
    if (capacity <= whole.size()) {
      throw Error(ANELLO_ERR_TRUNCATE, text("anello_explain: ", whole.size() + 1, " bytes are needed, not ", capacity));
    }
    std::memcpy(text_out, whole.c_str(), whole.size() + 1);
    return ANELLO_OK;
  });
}

}  // extern "C"
