#include "request.h"

#include "base/text.h"
#include "schedule/shape.h"

#include <CLI/CLI.hpp>

#include <map>

namespace anello::plan {

using schedule::Collective;

schedule::Call Request::call() const {
  schedule::Call call;
  for (const Collective each : schedule::kCollectives)
    if (collective == schedule::name(each)) call.collective = each;
  const bool reduces = schedule::reduces(call.collective);
  const bool barrier = call.collective == Collective::barrier;
  call.count = barrier ? 0 : count;
  call.element_bytes = barrier ? 1 : element_bytes;
  call.root = schedule::has_root(call.collective) ? root : 0;
  call.in_place = in_place && !barrier && call.collective != Collective::broadcast;
  call.finish = average && reduces && !schedule::is_prefix(call.collective);
  call.accumulate = accumulate && reduces;
  call.invariant = invariant && reduces;
  call.reach = reach;
  return call;
}

schedule::Topology Request::topology() const {
  schedule::Topology topology;
  topology.size = ranks;
  topology.network = network;
  topology.board = !network && board_bytes > 0;
  topology.board_bytes = topology.board ? board_bytes : 0;
  topology.oversubscribed = oversubscribed;
  return topology;
}

void add_options(CLI::App& app, Request& request) {
  std::vector<std::string> names;
  for (const Collective each : schedule::kCollectives)
    if (!schedule::is_varying(each)) names.emplace_back(schedule::name(each));
  app.add_option("collective", request.collective, "allreduce, broadcast, reduce, .., as --list has them")
      ->check(CLI::IsMember(names));
  const auto call = "The call";
  app.add_option("-c,--count", request.count,
                 "elements: the whole vector, or one rank's part where a vector has one for each")
      ->capture_default_str()->group(call);
  app.add_option("--element-bytes", request.element_bytes, "bytes of an element")->capture_default_str()
      ->check(CLI::Range(1, 16))->group(call);
  app.add_option("--root", request.root, "root of broadcast, reduce, gather and scatter")->capture_default_str()->group(call);
  app.add_flag("--in-place", request.in_place, "the input lies in the output buffer")->group(call);
  app.add_flag("--average", request.average, "results are divided by the number of ranks")->group(call);
  app.add_flag("--accumulate", request.accumulate, "as 16-bit floats: no rounded partial sum travels")->group(call);
  app.add_flag("--invariant", request.invariant, "fold in rank order (ANELLO_INVARIANT=1)")->group(call);
  const auto place = "Where the ranks are";
  app.add_option("-r,--ranks", request.ranks, "how many")->capture_default_str()->check(CLI::Range(1, 4096))
      ->group(place);
  app.add_flag("--network", request.network, "some of them meet over a network (no board)")->group(place);
  app.add_flag("--oversubscribed", request.oversubscribed, "more ranks than processors")->group(place);
  app.add_option("--board-bytes", request.board_bytes, "largest payload on the shared board; 0: no board")
      ->capture_default_str()->group(place);
  std::map<std::string, schedule::Reach> reaches;
  for (const schedule::Reach each : {schedule::Reach::none, schedule::Reach::read, schedule::Reach::store})
    reaches[schedule::name(each)] = each;
  app.add_option("--reach", request.reach, "what ranks can do with each other's buffers: none, read, store")
      ->transform(CLI::CheckedTransformer(reaches))->default_str("none")->group(place);
  const auto plan = "The plan";
  app.add_option("-a,--algorithm", request.algorithm, "as ANELLO_ALGORITHM; default: what the table chooses")
      ->group(plan);
  app.add_option("--chunk", request.chunk, "elements of a chunk; default: what the table chooses")->group(plan);
  app.add_option("--chunk-bytes", request.chunk_bytes, "as ANELLO_CHUNK_BYTES")->group(plan);
  app.add_flag("--json", request.json, "print JSON");
}

std::string why_not(const Request& request) {
  if (request.collective.empty()) return "name a collective, for instance: anello-plan allreduce --ranks 4 --count 16";
  if (request.root < 0 || request.root >= request.ranks)
    return text("there is no rank ", request.root, " among ", request.ranks, "; --root takes 0 to ", request.ranks - 1);
  if (request.reach != schedule::Reach::none && request.network)
    return "--reach is of ranks that meet in memory: leave out --network";
  constexpr std::size_t kMostElements = std::size_t{1} << 40;
  if (request.count > kMostElements) return text("--count takes at most ", kMostElements);
  return schedule::why_not(request.wish());
}

}  // namespace anello::plan
