// anello-tune's arithmetic: from times to lines of a table, and to verdicts on the library's choices.
#include "schedule/tuning.h"
#include "support/catch.h"
#include "tune/choice.h"
#include "tune/dense.h"
#include "tune/others.h"
#include "tune/wire.h"

#include <csignal>
#include <ctime>
#include <memory>

#include <sys/wait.h>
#include <unistd.h>

using namespace anello;
using namespace anello::tune;

namespace {

const Way kLibrary{};

Job a_job(int ranks, bool shared) {
  Job job;
  job.ranks = ranks;
  job.shared = shared;
  return job;
}

// Five rounds of which the third is disturbed.
std::vector<double> about(double us) { return {us, us * 1.01, us * 4, us * 0.99, us}; }

Measured at(std::size_t bytes, double library, std::map<std::string, double> others = {}) {
  Measured measured{"allreduce", bytes, {{kLibrary, about(library)}}};
  for (const auto& [name, us] : others) measured.times[{name, 0}] = about(us);
  return measured;
}

std::vector<std::string> printed(const std::vector<Result>& results) {
  std::vector<std::string> all;
  for (const Line& line : lines(results)) {
    std::string words;
    for (const char c : schedule::print(line.rule))
      if (c != ' ' || (!words.empty() && words.back() != ' ')) words += c;
    all.push_back(words + (line.remark.empty() ? "" : " # " + line.remark));
  }
  return all;
}

}  // namespace

TEST_CASE("ratios are of one round each, and one disturbed round does not count") {
  CHECK(ratio({1, 2, 30, 4, 5}, {2, 4, 60, 8, 10}) == Approx(0.5));
  CHECK(ratio({1, 1, 100}, {2, 2, 2}) == Approx(0.5));
  CHECK(median({5, 1, 9}) == 5);
}

TEST_CASE("a way is taken where it saves enough, from halfway below to halfway above") {
  const Job job = a_job(4, false);
  const std::vector<Segment> found =
      segments(job, {at(1024, 10, {{"pairwise", 9.5}}), at(4096, 10, {{"pairwise", 7}}),
                     at(16384, 10, {{"pairwise", 6}}), at(65536, 10, {{"pairwise", 9.5}})});
  REQUIRE(found.size() == 3);
  CHECK((found[0].way == kLibrary && found[0].from == 1 && found[0].up_to == 2048));
  CHECK((found[1].way.algorithm == "pairwise" && found[1].from == 2049 && found[1].up_to == 32768));
  CHECK((found[1].least == Approx(0.6) && found[1].most == Approx(0.7)));
  CHECK((found[2].way == kLibrary && found[2].from == 32769 && found[2].up_to == SIZE_MAX));
}

TEST_CASE("between ways that are about as fast the one of the size before stays") {
  const Job job = a_job(4, false);
  const auto ways = [&](double second_pairwise) {
    return segments(job, {at(1 << 20, 10, {{"pairwise", 7}, {"tree", 7.5}}),
                          at(1 << 22, 10, {{"pairwise", second_pairwise}, {"tree", 7}})});
  };
  CHECK(ways(7.2).size() == 1);
  CHECK(ways(7.8).size() == 2);
}

TEST_CASE("what is faster in half of the rounds only, or the library's own way, is not taken") {
  Measured unsteady = at(1 << 20, 10);
  unsteady.times[{"pairwise", 0}] = {1, 1, 1, 11, 11};
  CHECK(segments(a_job(4, false), {unsteady}).front().way == kLibrary);
  // On a board of 16 KiB, and of 8 ranks' payloads: exchange.
  CHECK(segments(a_job(4, false), {at(1024, 10, {{"exchange", 5}})}).front().way == kLibrary);
  CHECK(segments(a_job(4, true), {at(1 << 20, 10, {{"direct", 5}})}).front().way == kLibrary);
  // Ranks that can read would attach, others go round a ring: either may be the one that is better.
  CHECK(segments(a_job(4, false), {at(1 << 20, 10, {{"ring", 5}})}).front().way.algorithm == "ring");
}

TEST_CASE("lines say for which memory and how many ranks, and those for memory that ranks store into come first") {
  const std::vector<Result> results = {
      {a_job(2, false), {at(4096, 10, {{"doubling", 5}}), at(1 << 20, 10)}},
      {a_job(4, false), {at(4096, 10), at(1 << 20, 10, {{"attach", 8}})}},
      {a_job(8, true), {at(16384, 10, {{"exchange", 8}}), at(1 << 20, 10)}},
      {a_job(2, true), {at(1024, 10), at(16384, 10), at(1 << 20, 10)}},
  };
  CHECK(printed(results) == std::vector<std::string>{
                                "allreduce memory store 2 1 4096 exchange auto",
                                "allreduce memory store 2 4097 any direct auto",
                                "allreduce memory none 2 1 65536 doubling auto # 0.50 of the time by staged",
                                "allreduce memory read 3-5 65537 any attach auto # 0.80 of the time by staged",
                                "allreduce memory store 6-10 1 131072 exchange auto # 0.80 of the time by direct",
                            });
}

TEST_CASE("the table that is written can be read, chunks and remarks too") {
  Measured large = at(1 << 20, 10);
  large.times[{"pairwise", 16384}] = about(3);
  const std::vector<Line> all = lines({{a_job(2, false), {large}}});
  const schedule::Tuning table = schedule::parse_tuning(table_of(all, "a machine", "a remark"), "x");
  REQUIRE(table.rules.size() == 1);
  CHECK(table.machine == "a machine");
  CHECK((table.rules[0].algorithm == "pairwise" && table.rules[0].chunk_bytes == 16384));
}

TEST_CASE("a size is wrong where the next one, or another way, takes less by more than a tenth") {
  const std::vector<Measured> once{at(1024, 10, {{"ring", 5}, {"tree", 9}})};
  CHECK(verdicts(once).front().best.algorithm == "ring");
  // The library's own way under its name is as fast as the library, whatever was measured.
  const auto own = [](const Measured&, const Way& way) { return way.algorithm == "ring"; };
  CHECK(verdicts(once, own).front().best.algorithm == "tree");
  const std::vector<Verdict> found = verdicts(
      {at(1024, 10, {{"ring", 9.5}}), at(2048, 12, {{"ring", 10}}), at(4096, 10.5), at(8192, 20, {{"ring", 30}})});
  REQUIRE(found.size() == 4);
  CHECK((found[0].is_right() && found[0].over_next == Approx(10 / 12.0) && found[0].over_best == Approx(10 / 9.5)));
  CHECK((!found[1].is_right() && found[1].over_best == Approx(1.2) && found[1].best.algorithm == "ring"));
  CHECK((!found[1].is_right() && found[1].over_next == Approx(12 / 10.5)));
  CHECK((found[2].is_right() && found[3].is_right() && found[3].over_next == 0 && found[3].best == kLibrary));
  CHECK_THAT(print(found), Catch::Contains("SLOWER THAN THE NEXT SIZE") && Catch::Contains("SLOWER THAN THE BEST WAY"));
}

TEST_CASE("what is slow in one of two looks only is not wrong") {
  const auto look = [](double third) {
    return verdicts({at(1024, 10, {{"ring", 5}}), at(2048, 11), at(4096, third, {{"ring", 12}}), at(8192, 20)});
  };
  const std::vector<Verdict> first = look(15);
  CHECK(doubtful(first) == std::vector<std::size_t>{1024, 2048, 4096, 8192});
  CHECK(doubtful(verdicts({at(1024, 10), at(2048, 8)})) == std::vector<std::size_t>{1024, 2048});
  CHECK(doubtful(verdicts({at(1024, 8), at(2048, 10, {{"ring", 5}})})) == std::vector<std::size_t>{2048});
  CHECK(doubtful(verdicts({at(1024, 8), at(2048, 10)})).empty());
  const std::vector<Verdict> both = after_second_look(first, look(12.5));
  CHECK((!both[0].is_right() && both[0].was_wrong));
  CHECK((both[1].is_right() && !both[1].was_wrong));
  CHECK((both[2].is_right() && both[2].was_wrong && both[2].us == Approx(12.5)));
  CHECK_THAT(print(both), Catch::Contains("(slower in a first look)"));
  CHECK_FALSE(after_second_look(first, look(15))[2].is_right());
  CHECK_FALSE(after_second_look(first, {})[2].is_right());  // it could not be looked at again
  const std::vector<Verdict> slower = verdicts({at(1024, 10), at(2048, 8)});
  CHECK_FALSE(after_second_look(slower, verdicts({at(1024, 10)})).front().is_right());  // nor its next
}

TEST_CASE("a table's choice is no other way under its name") {
  const Job job = a_job(2, false);
  const Measured at_1_mib{"allreduce", 1 << 20, {}};
  const auto chosen = [&](const char* algorithm, const char* line = nullptr) {
    schedule::Wish library;
    if (line != nullptr) {
      const std::string table = std::string("anello-tuning 1\nmachine m\n") + line;
      library.tuning = std::make_shared<schedule::Tuning>(schedule::parse_tuning(table, "here"));
    }
    return is_the_librarys(job, at_1_mib, Way{algorithm, 0}, library);
  };
  CHECK((chosen("staged") && !chosen("ring")));
  const char* const ring = "allreduce memory none any 0 any ring 0\n";
  CHECK((chosen("ring", ring) && !chosen("staged", ring)));
  // In chunks of its own it is another way.
  CHECK_FALSE(chosen("ring", "allreduce memory none any 0 any ring 4096\n"));
}

TEST_CASE("other programs' share of the processors is told, and what they did not take is not") {
  const auto burn = [](double seconds) {
    const std::clock_t end = std::clock() + std::clock_t(seconds * CLOCKS_PER_SEC);
    while (std::clock() < end) {
    }
  };
  const Others others;
  const pid_t child = ::fork();
  if (child == 0) {
    burn(0.5);
    ::pause();  // its time is not this process's until it has been waited for
    ::_exit(0);
  }
  burn(0.5);
  const double with_child = others.share();
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  const double without = others.share();
  CHECK(with_child > without);
  CHECK((without >= 0 && with_child <= 1));
}

TEST_CASE("jobs and what is measured travel as they are") {
  Job job = a_job(3, true);
  job.collectives = {"scan", "alltoall"};
  job.sizes = {4, 1 << 30};
  job.table = "anello-tuning 1\nmachine \"x\"\n";
  const Job same = job_from(as_json(job));
  CHECK((same.ranks == 3 && same.shared && !same.network && same.collectives == job.collectives &&
         same.sizes == job.sizes));
  CHECK((same.table == job.table && same.rounds == job.rounds && same.chunks == job.chunks));
  Measured measured = at(77, 1.5, {{"ring", 2}});
  measured.times[{"ring", 4096}] = {1, 2};
  const Measured again = measured_from(as_json(measured));
  CHECK((again.collective == "allreduce" && again.bytes == 77 && again.times == measured.times));
}

TEST_CASE("ways are those that fit, with other chunks for large calls by messages") {
  const Job job = a_job(4, false);
  const auto names = [](const std::vector<Way>& ways) {
    std::string all;
    for (const Way& way : ways) all += way.name() + " ";
    return all;
  };
  CHECK(names(ways_for(job, call_of("allreduce", 64, 4))) ==
        "library exchange attach staged ring pairwise doubling halving tree ");
  CHECK(names(ways_for(a_job(4, true), call_of("broadcast", 1 << 20, 4))) ==
        "library direct central staged staged/16384 staged/262144 staged/1048576 tree tree/16384 tree/262144 "
        "tree/1048576 ");
  CHECK(call_of("alltoall", 1 << 20, 4).count == (1 << 20) / 16);
  CHECK(call_of("allgather", 1 << 20, 4).count == (1 << 20) / 4);
}
