// Tables of measured choices: as text, and before the library's own.
#include "schedule/tuning.h"

#include "base/error.h"
#include "schedule_cases.h"
#include "support/catch.h"

using namespace anello::schedule;

namespace {

const std::string kHead = "anello-tuning 1\nmachine a machine, 2 processors\n";

Tuning parsed(const std::string& lines) { return parse_tuning(kHead + lines, "/the/table"); }

std::string refusal(const std::string& whole) {
  try {
    parse_tuning(whole, "/the/table");
  } catch (const anello::Error& error) {
    CHECK(error.code() == ANELLO_ERR_ARGUMENT);
    return error.text();
  }
  return "";
}

Call floats(std::size_t count) {
  Call call = a_call(Collective::allreduce, count);
  call.element_bytes = 4;
  return call;
}

Wish with(const std::string& lines, std::string algorithm = "") {
  return {std::move(algorithm), 0, std::make_shared<Tuning>(parsed(lines))};
}

}  // namespace

TEST_CASE("a table that is printed and read again is the same") {
  const Tuning table = parsed(
      "# a comment\n\n"
      "allreduce memory none 2 0 8192 exchange auto\n"
      "allreduce  memory store 3-5 8193 any  direct 262144   # 0.7 of ring's time\n"
      "broadcast anywhere read 9-any 1 2 direct auto\r\n"
      "barrier network none any 0 any dissemination auto");
  REQUIRE(table.rules.size() == 4);
  CHECK(table.machine == "a machine, 2 processors");
  const Rule& second = table.rules[1];
  CHECK(
      (second.collectives.has(Collective::allreduce) && second.where == Where::memory && second.reach == Reach::store));
  CHECK((second.from_ranks == 3 && second.up_to_ranks == 5 && second.from_bytes == 8193 &&
         second.up_to_bytes == SIZE_MAX));
  CHECK((second.algorithm == "direct" && second.chunk_bytes == 262144 && second.line == 6));
  CHECK((table.rules[0].from_ranks == 2 && table.rules[0].up_to_ranks == 2 && table.rules[0].chunk_bytes == 0));
  CHECK((table.rules[2].from_ranks == 9 && table.rules[2].up_to_ranks == INT_MAX));
  CHECK((table.rules[3].from_ranks == 1 && table.rules[3].up_to_ranks == INT_MAX));
  const Tuning again = parse_tuning(print(table), "elsewhere");
  CHECK(print(again) == print(table));
  CHECK(again.rules.size() == 4);
}

TEST_CASE("a line that is wrong is named, with what it should be") {
  const auto line_3 = [](const std::string& line) { return refusal(kHead + line + "\n"); };
  CHECK_THAT(refusal(""), Catch::Contains("/the/table, line 1: it must be 'anello-tuning 1'"));
  CHECK_THAT(refusal("anello-tuning 2\n"), Catch::Contains("line 1"));
  CHECK_THAT(refusal("anello-tuning 1\n"), Catch::Contains("line 2: it must name the machine"));
  CHECK_THAT(line_3("allreduce memory none 2 0 8192 exchange"),
             Catch::Contains("line 3: it has 7 fields in place of 8"));
  CHECK_THAT(line_3("allredcue memory none 2 0 8192 exchange auto"), Catch::Contains("'allredcue' is no collective"));
  CHECK_THAT(line_3("allreduce here none 2 0 8192 exchange auto"),
             Catch::Contains("anywhere, memory, shared, network"));
  CHECK_THAT(line_3("allreduce memory some 2 0 8192 exchange auto"), Catch::Contains("none, read, store"));
  CHECK_THAT(line_3("allreduce memory none 2- 0 8192 exchange auto"), Catch::Contains("'' is no number of ranks"));
  CHECK_THAT(line_3("allreduce memory none -2 0 8192 exchange auto"), Catch::Contains("is no number of ranks"));
  CHECK_THAT(line_3("allreduce memory none 5-3 0 8192 exchange auto"), Catch::Contains("the lower number comes first"));
  CHECK_THAT(line_3("allreduce memory none 2 9 8 exchange auto"), Catch::Contains("the lower number comes first"));
  CHECK_THAT(line_3("allreduce memory none 2 0 8K exchange auto"), Catch::Contains("'8K' is no number of bytes"));
  CHECK_THAT(line_3("allreduce memory none 2 0 99999999999999999999999 exchange auto"),
             Catch::Contains("no number of bytes"));
  CHECK_THAT(line_3("broadcast memory none 2 0 8 ring auto"),
             Catch::Contains("broadcast has no algorithm 'ring'; it has exchange, direct"));
  CHECK_THAT(line_3("broadcast memory none 2 0 8 tree big"), Catch::Contains("'big'"));
  CHECK_THAT(refusal(kHead + "\n# nothing\nallreduce\n"), Catch::Contains("line 5"));
  CHECK_THAT(refusal(kHead + std::string(kMostTuningBytes, '#')), Catch::Contains("at most 32768"));
}

TEST_CASE("its rules come before the library's, for as many ranks and bytes as they say") {
  const Wish wish =
      with("allreduce memory none 3-4 0 4096 pairwise auto\nallreduce memory none 4 4097 any tree 32768\n");
  const auto chosen = [&](std::size_t count, int ranks) { return decide(floats(count), meeting(ranks), wish); };
  CHECK(chosen(1024, 4).choice.algorithm->name == "pairwise");
  CHECK(chosen(1024, 3).choice.algorithm->name == "pairwise");
  CHECK(chosen(1024, 2).choice.algorithm->name == "staged");
  CHECK(chosen(1024, 5).choice.algorithm->name == "exchange");
  CHECK(chosen(1025, 4).choice.algorithm->name == "tree");
  CHECK(chosen(1 << 20, 4).choice.chunk == 32768 / 4);
  CHECK(chosen(1 << 20, 3).choice.algorithm->name == "staged");
  CHECK(chosen(1024, 4).rule->line == 3);
  CHECK_THAT(chosen(1025, 4).why, Catch::Contains("Line 4 of /the/table is the first that holds and fits: tree"));
  // The chunk that it leaves open is the next rule's.
  CHECK(chosen(1024, 4).choice.chunk == choose(floats(1024), meeting(4)).chunk);
  Topology crowded = meeting(4);
  crowded.oversubscribed = true;
  CHECK(choose(floats(1 << 20), crowded, wish).chunk == 32768 / 4);
}

TEST_CASE("what does not fit is passed over, and what was asked for comes first") {
  CHECK(choose(floats(1 << 20), meeting(4), with("allreduce anywhere none any 0 any exchange auto")).algorithm->name ==
        "staged");
  Call sums = floats(1 << 20);
  sums.accumulate = true;
  CHECK(choose(sums, meeting(4), with("allreduce anywhere none any 0 any tree auto")).algorithm->name == "staged");
  const Wish both = with("allreduce anywhere none any 0 any tree 4096", "doubling");
  CHECK(choose(floats(1 << 16), meeting(4), both).algorithm->name == "doubling");
  CHECK(decide(floats(1 << 16), meeting(4), both).rule == nullptr);
}

TEST_CASE("rules that need reach hold where ranks have it, and make them announce their buffers") {
  const Wish wish =
      with("allreduce memory store any 0 any direct auto\nallreduce memory none any 0 any doubling auto\n");
  Call call = floats(2);
  CHECK(profits_from_reach(call, meeting(2), wish));
  CHECK_FALSE(profits_from_reach(call, meeting(2), with("allreduce memory store any 0 any exchange auto")));
  CHECK(choose(call, meeting(2), wish).algorithm->name == "doubling");
  call.reach = Reach::store;
  CHECK(choose(call, meeting(2), wish).algorithm->name == "direct");
}
