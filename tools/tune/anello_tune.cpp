// anello-tune: measures which algorithms are fastest for collective calls on this machine, and writes a table for the
// library (ANELLO_TUNING) with the cases in which its own table is wrong. With --dense, it looks for cliffs in the
// library's choices.
#include "base/machine.h"
#include "base/text.h"
#include "schedule/shape.h"
#include "tune/choice.h"
#include "tune/dense.h"
#include "tune/job.h"
#include "tune/others.h"

#include "shared/command_line.h"
#include "shared/manual.h"
#include "shared/complaint.h"
#include "shared/output_file.h"

#include <cmath>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <set>
#include <stdexcept>

#include <unistd.h>

namespace anello::tune {
namespace {

const char* const kExamples = R"(Examples:
  anello-tune                          measure (4 minutes), and write the table where the library finds it by itself
  anello-tune --quick -o /tmp/table    a first look in some 20 seconds, into a file of your own
  anello-tune --dry-run                measure and print the table, write nothing
  anello-tune --dense --ranks 2        64 sizes of allreduce: is any slower than the next larger one?
  anello-tune --dense --table T        the same with the choices of a table

How it measures: ranks on this machine, started by anellorun, do each call by every algorithm that can do it and, from
256 KiB on, with several chunk sizes. Ways take turns in each round, and what counts is the median over rounds of
their time over the library's own in the same round; all-reduces are done in place, and calls that do not make ranks
wait for each other are followed by a barrier. A way gets a line in the table where it saves 8 % or more, in three
rounds of four. Leave the machine alone meanwhile: where other programs took more than 5 % of its processors, it says
so. The table holds on machines with the same processor, and as many; it is text, with what each line brings; rank 0
reads it where ANELLO_TUNING says, or at its usual place. anello-plan explain --tuning T tells what it decides for a
call.)";

const std::vector<std::string> kTuned = {"allreduce", "broadcast", "reduce",   "allgather", "reduce_scatter",
                                         "gather",    "scatter",   "alltoall", "scan"};

struct Options {
  std::vector<int> ranks;
  std::vector<std::string> collectives;
  std::vector<std::string> memory = {"malloc", "anello"};
  std::string where = "memory";
  std::size_t from = 8;
  std::size_t up_to = 64 << 20;
  int sizes = 0;
  int rounds = 0;
  double minutes = 4;
  std::string out;
  std::string table;
  bool dense = false;
  bool quick = false;
  bool dry_run = false;
};

std::string usual_place() {
  const auto value = [](const char* name) {
    const char* const found = std::getenv(name);
    return std::string(found == nullptr ? "" : found);
  };
  if (const std::string own = value("XDG_CONFIG_HOME"); !own.empty()) return own + "/anello/tuning";
  if (const std::string home = value("HOME"); !home.empty()) return home + "/.config/anello/tuning";
  return "/etc/anello/tuning";
}

// The requested number of sizes, with a constant ratio; by default each is twice the one before, from 1 MiB on four
// times.
std::vector<std::size_t> sizes_of(const Options& options) {
  std::set<std::size_t> sizes;
  constexpr std::size_t kElement = 4;
  if (options.sizes > 1) {
    const double step = std::log(double(options.up_to) / double(options.from)) / (options.sizes - 1);
    for (int i = 0; i < options.sizes; ++i)
      sizes.insert(std::size_t(std::llround(double(options.from) * std::exp(step * i) / kElement)) * kElement);
    sizes.erase(0);
  } else {
    for (std::size_t size = options.from; size <= options.up_to; size *= size < (1 << 20) ? 2 : 4) sizes.insert(size);
  }
  return {sizes.begin(), sizes.end()};
}

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  std::string text_in{std::istreambuf_iterator<char>(file), {}};
  if (!file) throw std::runtime_error("cannot read " + path);
  schedule::parse_tuning(text_in, path);
  return text_in;
}

std::vector<Job> jobs_of(const Options& options) {
  std::vector<Job> jobs;
  for (const int ranks : options.ranks)
    for (const std::string& memory : options.memory) {
      Job job;
      job.ranks = ranks;
      job.network = options.where == "network";
      job.shared = memory == "anello";
      if (job.network && job.shared) continue;
      job.collectives = options.collectives;
      job.sizes = sizes_of(options);
      job.rounds = options.rounds;
      job.chunks = !options.dense;
      if (!options.table.empty()) job.table = read_file(options.table);
      jobs.push_back(std::move(job));
    }
  for (Job& job : jobs) job.seconds = options.minutes * 60 / double(jobs.size());
  return jobs;
}

// On a terminal, one line that is overwritten; otherwise one line for each text. Empty: the end.
void tell(const std::string& line) {
  if (::isatty(STDERR_FILENO) != 0)
    std::cerr << "\r\033[K" << line << std::flush;
  else if (!line.empty())
    std::cerr << line << std::endl;
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  char date[16];
  std::strftime(date, sizeof date, "%Y-%m-%d", std::gmtime(&now));
  return date;
}

std::vector<Verdict> verdicts_of(const Job& job, const std::string& collective, const std::vector<Measured>& measured) {
  std::vector<Measured> sizes;
  for (const Measured& each : measured)
    if (each.collective == collective) sizes.push_back(each);
  schedule::Wish library;
  if (!job.table.empty())
    library.tuning = std::make_shared<schedule::Tuning>(schedule::parse_tuning(job.table, "the table"));
  return verdicts(sizes, [&](const Measured& at, const Way& way) { return is_the_librarys(job, at, way, library); });
}

int dense(const Options& options) {
  std::size_t wrong = 0;
  const Others others;
  for (const Job& job : jobs_of(options)) {
    const std::vector<Measured> measured = run_job(job, tell);
    for (const std::string& collective : job.collectives) {
      std::vector<Verdict> found = verdicts_of(job, collective, measured);
      if (const std::vector<std::size_t> sizes = doubtful(found); !sizes.empty()) {
        Job again = job;
        again.collectives = {collective};
        again.sizes = sizes;
        found = after_second_look(std::move(found), verdicts_of(job, collective, run_job(again, tell)));
      }
      tell("");
      for (const Verdict& each : found) wrong += each.is_right() ? 0 : 1;
      std::cout << collective << ", " << job.describe() << '\n' << print(found) << std::endl;
    }
  }
  std::cout << wrong << (wrong == 1 ? " size is" : " sizes are")
            << " more than 10 % slower than the next larger one or than the "
            << "best way, in both of two looks\n";
  if (const std::string warning = others.warning(); !warning.empty()) std::cout << "Beware: " << warning << '\n';
  return wrong == 0 ? 0 : 1;
}

// The temporary file for the table, which then replaces the file.
std::string half_of(const std::string& path) { return text(path, ".", ::getpid()); }

// Throws if the table cannot be written, before the measurement takes minutes.
void make_room(const std::string& path) {
  const std::filesystem::path place(path);
  std::error_code failed;
  if (place.has_parent_path()) std::filesystem::create_directories(place.parent_path(), failed);
  if (failed) throw std::runtime_error(text("cannot make the folder of '", path, "': ", failed.message()));
  shared::check_writable(path);
  shared::check_writable(half_of(path));
}

void write(const std::string& path, const std::string& table) {
  // Writes it atomically: a job that starts now must not find half of it.
  const std::string half = half_of(path);
  std::ofstream file(half);
  file << table;
  file.close();
  if (!file || std::rename(half.c_str(), path.c_str()) != 0) throw std::runtime_error("cannot write " + path);
}

int tune(const Options& options) {
  const std::time_t begin = std::time(nullptr);
  const std::string place = options.out.empty() ? usual_place() : options.out;
  if (!options.dry_run) make_room(place);
  const Others others;
  std::vector<Result> results;
  for (const Job& job : jobs_of(options)) results.push_back({job, run_job(job, tell)});
  tell("");
  const std::vector<Line> found = lines(results);
  const std::string warning = others.warning();
  const std::string remark = text("anello-tune, ", today(), ", in ", std::time(nullptr) - begin, " s",
                                  warning.empty() ? "" : "; BEWARE: ", warning);
  const std::string table = table_of(found, machine_name(), remark);
  schedule::parse_tuning(table, "the table");  // the table must be readable
  std::size_t changes = 0;
  for (const Line& line : found) changes += line.remark.empty() ? 0 : 1;
  std::cout << "On " << machine_name() << ", " << changes << (changes == 1 ? " line differs" : " lines differ")
            << " from what the library chooses:\n\n"
            << table;
  if (!warning.empty()) std::cout << "\nBeware: " << warning << '\n';
  if (options.dry_run) return 0;
  write(place, table);
  std::cout << "\nwritten to " << place;
  if (options.out.empty())
    std::cout << ", where rank 0 finds it by itself; ANELLO_TUNING=none uses no table\n";
  else
    std::cout << "; ANELLO_TUNING=" << place << " uses it\n";
  return 0;
}

int run(int argc, char** argv) {
  CLI::App app("Measures which algorithms collective calls should take on this machine, and writes a table of them.",
               "anello-tune");
  app.footer(kExamples);
  shared::add_manual(app);
  Options options;
  std::string job;
  std::vector<std::string> names;
  for (const schedule::Collective each : schedule::kCollectives)
    if (!schedule::is_varying(each)) names.emplace_back(schedule::name(each));
  app.add_option("-o,--out", options.out, "file for the table; default: " + usual_place());
  app.add_flag("--dry-run", options.dry_run, "print the table, write nothing");
  app.add_flag("--quick", options.quick, "few sizes, allreduce and broadcast on 2 ranks: a first overview");
  app.add_option("-r,--ranks", options.ranks, "numbers of ranks; default 2,4,8 (--dense: 2)")
      ->delimiter(',')
      ->check(shared::whole(2, 256))
      ->type_name("N");
  app.add_option("-c,--collectives", options.collectives,
                 "as anello-plan --list has them; default: all but exscan and barrier "
                 "(--dense: allreduce)")
      ->delimiter(',')
      ->transform(shared::one_of(names))
      ->type_name("NAMES");
  app.add_option("--memory", options.memory, "memory of buffers: malloc, anello (anello_mem_alloc)")
      ->delimiter(',')
      ->transform(shared::one_of({"malloc", "anello"}))
      ->default_str("malloc,anello");
  app.add_option("--where", options.where,
                 "where ranks meet: memory, or network (tcp on this machine, not your real network)")
      ->transform(shared::one_of({"memory", "network"}))
      ->capture_default_str();
  app.add_option("-b,--from", options.from, "smallest payload")
      ->transform(shared::size())
      ->type_name("SIZE")
      ->default_str("8");
  app.add_option("-e,--up-to", options.up_to, "largest payload")
      ->transform(shared::size())
      ->type_name("SIZE")
      ->default_str("64M");
  app.add_option("--sizes", options.sizes,
                 "number of sizes; default: each twice the one before, from 1M four times "
                 "(--dense: 64)")
      ->check(shared::whole(2, 1000))
      ->type_name("N");
  app.add_option("--rounds", options.rounds, "least number of rounds; default 3 (--dense: 5)")
      ->check(shared::whole(1, 1000))
      ->type_name("N");
  app.add_option(
         "--minutes", options.minutes,
         "approximate duration; the largest sizes are left out if they do not fit. 0: as long as the least number "
         "of rounds takes")
      ->capture_default_str()
      ->check(shared::number(0, 1000))
      ->type_name("N");
  app.add_flag("--dense", options.dense,
               "find, and if necessary measure again, sizes where the library's choice is more than 10 % slower than "
               "at the next "
               "larger size, or than the best way; ends with 1 if there are any");
  app.add_option("--table", options.table, "with --dense: the library chooses by this table")
      ->check(shared::readable_file())
      ->type_name("FILE");
  app.add_option("--as-rank", job)->group("");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return shared::end(app, error);
  }
  if (!job.empty()) return be_a_rank(job);
  if (options.from < 4 || options.from > options.up_to)
    throw std::runtime_error(
        text("--from must be at least 4, and at most --up-to; they are ", options.from, " and ", options.up_to));
  if (options.quick) {
    if (options.sizes == 0) options.sizes = 6;
    if (app.count("--up-to") == 0) options.up_to = 4 << 20;
    if (app.count("--minutes") == 0) options.minutes = 0.2;
    if (options.ranks.empty()) options.ranks = {2};
    if (options.collectives.empty()) options.collectives = {"allreduce", "broadcast"};
  }
  if (options.dense) {
    if (options.sizes == 0) options.sizes = 64;
    if (app.count("--minutes") == 0) options.minutes = 0;
    if (options.ranks.empty()) options.ranks = {2};
    if (options.collectives.empty()) options.collectives = {"allreduce"};
  }
  if (options.rounds == 0) options.rounds = options.dense ? 5 : 3;
  if (options.ranks.empty()) options.ranks = {2, 4, 8};
  if (options.collectives.empty()) options.collectives = kTuned;
  return options.dense ? dense(options) : tune(options);
}

}  // namespace
}  // namespace anello::tune

int main(int argc, char** argv) {
  try {
    return anello::tune::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "anello-tune: " << shared::complaint(error) << '\n';
    return 2;
  }
}
