#include "request.h"

#include "base/error.h"
#include "base/text.h"
#include "schedule/shape.h"
#include "schedule/tuning.h"

#include "shared/command_line.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <string_view>

namespace anello::plan {

using schedule::Collective;

namespace {
constexpr int kMostRanks = 65'536;

Collective collective_of(const std::string& name) {
  const auto* const found = std::find_if(std::begin(schedule::kCollectives), std::end(schedule::kCollectives),
                                         [&](Collective each) { return name == schedule::name(each); });
  return found == std::end(schedule::kCollectives) ? Collective::barrier : *found;
}
}  // namespace

schedule::Call Request::call() const {
  schedule::Call call;
  call.collective = collective_of(collective);
  const bool reduces = schedule::reduces(call.collective);
  const bool barrier = call.collective == Collective::barrier;
  call.count = barrier ? 0 : schedule::is_varying(call.collective) ? known_total(call.collective, counts()) : count;
  call.element_bytes = barrier ? 1 : element_bytes;
  call.root = schedule::has_root(call.collective) ? root : 0;
  call.in_place = in_place && !barrier && call.collective != Collective::broadcast;
  call.finish = average && reduces && !schedule::is_prefix(call.collective);
  call.accumulate = accumulate && reduces;
  call.invariant = invariant && reduces;
  call.reach = reach;
  return call;
}

schedule::Counts Request::counts() const {
  if (!schedule::is_varying(collective_of(collective))) return {};
  return counts_given.empty() ? schedule::Counts(static_cast<std::size_t>(topology().size), count) : counts_given;
}

std::string Request::elements() const {
  if (counts_given.empty()) return text(call().collective == Collective::barrier ? 0 : count, " elements");
  const auto [least, most] = std::minmax_element(counts_given.begin(), counts_given.end());
  return *least == *most ? text(*most, " elements") : text(*least, " to ", *most, " elements");
}

namespace {

// The host of each rank: in blocks, or in turn for as long as a host has room.
std::vector<int> placed(std::vector<int> room, bool round_robin) {
  std::vector<int> host_of;
  const int ranks = std::accumulate(room.begin(), room.end(), 0);
  for (std::size_t host = 0; static_cast<int>(host_of.size()) < ranks;) {
    if (room[host] > 0) {
      --room[host];
      host_of.push_back(static_cast<int>(host));
    }
    if (round_robin || room[host] == 0) host = (host + 1) % room.size();
  }
  return host_of;
}

}  // namespace

schedule::Topology Request::topology() const {
  schedule::Topology topology;
  topology.size =
      per_host.empty()
          ? ranks
          : static_cast<int>(std::min(std::accumulate(per_host.begin(), per_host.end(), 0LL), kMostRanks + 1LL));
  topology.network = network || per_host.size() > 1;
  if (!per_host.empty() && topology.size <= kMostRanks) topology.host_of = placed(per_host, round_robin);
  topology.board = !topology.network && board_bytes > 0;
  topology.staging_bytes = topology.board && !no_staging ? schedule::usual_staging_bytes(topology.size) : 0;
  topology.board_bytes = topology.board ? board_bytes : 0;
  topology.oversubscribed = oversubscribed || (bound_to > 0 && topology.size > bound_to);
  for (int rank = 0; bound_to > 1 && bound_to < topology.size && rank < topology.size; ++rank)
    topology.processors_of.push_back(rank % bound_to);
  return topology;
}

schedule::Wish Request::wish() const {
  schedule::Wish wish{algorithm, chunk_bytes};
  if (tuning.empty()) return wish;
  std::ifstream file(tuning);
  const std::string lines{std::istreambuf_iterator<char>(file), {}};
  if (!file) throw Error(ANELLO_ERR_ARGUMENT, "cannot read " + tuning);
  wish.tuning = std::make_shared<schedule::Tuning>(schedule::parse_tuning(lines, tuning));
  return wish;
}

namespace {

constexpr long long kMostElements = 1LL << 40;

std::optional<long long> whole_number(std::string_view digits, long long least, long long most) {
  long long number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc{} || end != digits.data() + digits.size() || number < least || number > most) return {};
  return number;
}

// "4,4,3" or "8x128", or both mixed: "8x3,4". At most kMostRanks numbers.
template <class Number>
std::vector<Number> parse_list(const std::string& words, Number least, Number most, const CLI::ValidationError& error) {
  std::vector<Number> numbers;
  for (std::size_t at = 0; at <= words.size();) {
    const std::size_t end = std::min(words.find(',', at), words.size());
    const std::string_view word = std::string_view(words).substr(at, end - at);
    const std::size_t cross = word.find('x');
    const auto number =
        whole_number(word.substr(0, cross), static_cast<long long>(least), static_cast<long long>(most));
    const auto times = cross == std::string_view::npos ? 1 : whole_number(word.substr(cross + 1), 1, kMostRanks);
    if (!number || !times || numbers.size() + static_cast<std::size_t>(*times) > kMostRanks) throw error;
    numbers.insert(numbers.end(), static_cast<std::size_t>(*times), static_cast<Number>(*number));
    at = end + 1;
  }
  return numbers;
}

std::vector<int> parse_per_host(const std::string& words) {
  return parse_list(words, 1, kMostRanks,
                    CLI::ValidationError("--per-host", text("'", words, "' is not like 4,4,3 or 8x128, with at most ",
                                                            kMostRanks, " ranks")));
}

schedule::Counts parse_counts(const std::string& words) {
  return parse_list(words, std::size_t{0}, static_cast<std::size_t>(kMostElements),
                    CLI::ValidationError("--counts", text("'", words, "' is not like 100,0,7 or 100x8,7, each at most ",
                                                          kMostElements, ", for at most ", kMostRanks, " ranks")));
}

}  // namespace

schedule::Cost Request::cost() const {
  schedule::Cost cost = schedule::typical_cost(topology().network);
  const auto set = [](schedule::Passage& passage, double us, double gigabits_per_s) {
    if (us >= 0) passage.latency_s = us * 1e-6;
    if (gigabits_per_s > 0) passage.byte_s = 8 / (gigabits_per_s * 1e9);
  };
  set(cost, latency_us, gigabits);
  set(cost.inside, inside_latency_us, inside_gigabits);
  return cost;
}

void add_options(CLI::App& app, Request& request) {
  std::vector<std::string> names;
  for (const Collective each : schedule::kCollectives) names.emplace_back(schedule::name(each));
  app.add_option("collective", request.collective, "allreduce, broadcast, reduce, .., as --list has them")
      ->transform(shared::one_of(names));
  const auto call = "The call";
  app.add_option("-c,--count", request.count,
                 "elements: the whole vector, or one rank's part if a vector has one for each")
      ->capture_default_str()
      ->check(shared::whole(0, kMostElements))
      ->type_name("N")
      ->group(call);
  app.add_option_function<std::string>(
         "--counts",
         [&request](const std::string& words) {
    request.counts_given = parse_counts(words);
    request.ranks = static_cast<int>(request.counts_given.size());  // unless --ranks, which comes later, says otherwise
         },
         "elements by rank in a form whose parts differ, as 100,0,7 or 100x8,7: in an allgatherv or gatherv what the "
         "rank gives, in a scatterv or reduce_scatterv what it gets, in an alltoallv what it sends to each; also says "
         "how "
         "many ranks there are; default: --count for each")
      ->type_name("N,..")
      ->group(call);
  app.add_option("--element-bytes", request.element_bytes, "bytes of an element")
      ->capture_default_str()
      ->check(shared::whole(1, 16))
      ->type_name("N")
      ->group(call);
  app.add_option("--root", request.root, "root of broadcast, reduce, gather, scatter, gatherv and scatterv")
      ->capture_default_str()
      ->check(shared::whole(0, kMostRanks - 1))
      ->type_name("RANK")
      ->group(call);
  app.add_flag("--in-place", request.in_place, "the input lies in the output buffer")->group(call);
  app.add_flag("--average", request.average, "results are divided by the number of ranks")->group(call);
  app.add_flag("--accumulate", request.accumulate, "as for 16-bit floats: ranks send no rounded partial sums")
      ->group(call);
  app.add_flag("--invariant", request.invariant, "reduce in rank order (ANELLO_INVARIANT=1)")->group(call);
  const auto place = "Where the ranks are";
  app.add_option("-r,--ranks", request.ranks, "number of ranks")
      ->capture_default_str()
      ->check(shared::whole(1, kMostRanks))
      ->type_name("N")
      ->group(place);
  app.add_flag("--network", request.network, "some ranks meet over a network (no board)")->group(place);
  app.add_option_function<std::string>(
         "--per-host", [&request](const std::string& words) { request.per_host = parse_per_host(words); },
         "ranks on each host, as 4,4,3 or, on 128 hosts, 8x128; instead of --ranks and --network")
      ->type_name("N")
      ->group(place);
  app.add_flag("--round-robin", request.round_robin, "ranks are numbered across the hosts in turn, not host by host")
      ->group(place);
  app.add_flag("--oversubscribed", request.oversubscribed, "more ranks than processors")->group(place);
  app.add_option("--bound-to", request.bound_to, "number of processors to which ranks are bound in turn; 0: not bound")
      ->capture_default_str()
      ->check(shared::whole(0, 4096))
      ->type_name("N")
      ->group(place);
  app.add_option("--board-bytes", request.board_bytes, "largest payload on the shared board; 0: no board")
      ->capture_default_str()
      ->check(shared::whole(0, kMostElements))
      ->type_name("N")
      ->group(place);
  app.add_flag("--no-staging", request.no_staging,
               "ranks have no staging memory: they are threads, or it is not available")
      ->group(place);
  std::map<std::string, schedule::Reach> reaches;
  for (const schedule::Reach each : {schedule::Reach::none, schedule::Reach::read, schedule::Reach::store})
    reaches[schedule::name(each)] = each;
  app.add_option("--reach", request.reach, "what ranks can do with each other's buffers: none, read, store")
      ->transform(shared::one_of(reaches))
      ->default_str("none")
      ->type_name("WORD")
      ->group(place);
  const auto speed = "How fast messages are, for predictions";
  const auto add =
      [&app, speed](const char* option, double& value, const char* what, const char* unit, double least, double most) {
    app.add_option(option, value, what)->check(shared::number(least, most))->type_name(unit)->group(speed);
  };
  constexpr double kMostUs = 1e9, kLeastGigabits = 1e-6, kMostGigabits = 1e6;
  add("--latency", request.latency_us, "of a message, between hosts if there are several; default: 12, in memory 0.3",
      "US", 0, kMostUs);
  add("--rate", request.gigabits, "of a host's link; default: 25, in memory 64", "GBIT/S", kLeastGigabits,
      kMostGigabits);
  add("--inside-latency", request.inside_latency_us, "between ranks of one of several hosts; default: 0.3", "US", 0,
      kMostUs);
  add("--inside-rate", request.inside_gigabits, "between ranks of one of several hosts; default: 64", "GBIT/S",
      kLeastGigabits, kMostGigabits);
  const auto plan = "The plan";
  app.add_option("-a,--algorithm", request.algorithm, "as ANELLO_ALGORITHM; default: the table's choice")->group(plan);
  app.add_option("--tuning", request.tuning, "as ANELLO_TUNING: a table that anello-tune has written, from any machine")
      ->check(shared::readable_file())
      ->type_name("FILE")
      ->group(plan);
  app.add_option("--chunk", request.chunk, "elements of a chunk; default: the table's choice")
      ->check(shared::whole(0, kMostElements))
      ->type_name("N")
      ->group(plan);
  app.add_option("--chunk-bytes", request.chunk_bytes, "as ANELLO_CHUNK_BYTES")
      ->check(shared::whole(0, kMostElements))
      ->type_name("N")
      ->group(plan);
  app.add_flag("--json", request.json, "print JSON");
}

std::string why_not(const Request& request) {
  if (request.collective.empty()) return "name a collective, for instance: anello-plan allreduce --ranks 4 --count 16";
  const schedule::Topology topology = request.topology();
  if (topology.size > kMostRanks || topology.size < 1)
    return text("--per-host comes to ", topology.size, " ranks; at most ", kMostRanks, " are planned for");
  if (request.root < 0 || request.root >= topology.size)
    return text("there is no rank ", request.root, " among ", topology.size, "; --root takes 0 to ", topology.size - 1);
  if (const schedule::Counts& given = request.counts_given; !given.empty()) {
    if (request.counts().empty())
      return text("--counts is for forms whose parts differ, such as allgatherv; parts of ", request.collective,
                  " have --count elements each");
    if (given.size() != static_cast<std::size_t>(topology.size))
      return text("--counts has ", given.size(), given.size() == 1 ? " number for " : " numbers for ", topology.size,
                  topology.size == 1 ? " rank" : " ranks");
    if (request.in_place && request.collective == "alltoallv")
      return "in place, two ranks exchange parts of the same count: leave out --counts or --in-place";
  }
  if (request.reach != schedule::Reach::none && topology.network)
    return "--reach applies to ranks that meet in memory: leave out --network, and --per-host with several";
  if (request.round_robin && request.per_host.size() < 2) return "--round-robin needs several hosts: --per-host 4,4";
  if (request.bound_to > 0 && topology.host_of.size() > 0)
    return "--bound-to applies to the ranks of one host: leave out --per-host";
  return schedule::why_not(request.wish());
}

}  // namespace anello::plan
