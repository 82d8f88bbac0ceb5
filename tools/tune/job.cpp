#include "tune/job.h"

#include "base/text.h"
#include "schedule/shape.h"
#include "tune/wire.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <stdexcept>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace anello::tune {

using schedule::Collective;

namespace {

constexpr std::size_t kElementBytes = 4;
constexpr std::size_t kBoardBytes = 16 * 1024;  // as in the arena
// Below this size, one chunk is the whole payload anyway.
constexpr std::size_t kChunksFrom = 256 * 1024;
constexpr std::size_t kChunks[] = {16 * 1024, 256 * 1024, 1024 * 1024};

// A temporary file for the table of a communicator.
class TemporaryFile {
 public:
  TemporaryFile() {
    const int descriptor = ::mkstemp(path_.data());
    if (descriptor < 0) throw std::runtime_error(text("cannot make ", path_, ": ", std::strerror(errno)));
    ::close(descriptor);
  }
  ~TemporaryFile() { ::unlink(path_.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_ = (std::filesystem::temp_directory_path() / "anello-tune-XXXXXX").string();
};

// The anellorun beside this program, else the one in PATH.
std::string launcher(const std::filesystem::path& self) {
  const std::filesystem::path beside = self.parent_path() / "anellorun";
  return ::access(beside.c_str(), X_OK) == 0 ? beside.string() : "anellorun";
}

pid_t start(const std::vector<std::string>& command, const std::string& table, const Job& job, int out) {
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid < 0) throw std::runtime_error(text("fork: ", std::strerror(errno)));
  if (pid > 0) return pid;
  // The ranks end with this process, however it ends.
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  ::setenv("OMP_NUM_THREADS", "1", 0);  // so that each job's anellorun does not say what it has set
  ::setenv("ANELLO_TUNING", table.c_str(), 1);
  ::setenv("ANELLO_TRANSPORT", job.network ? "tcp" : "shm", 1);
  for (const char* other : {"ANELLO_ALGORITHM", "ANELLO_CHUNK_BYTES", "ANELLO_INVARIANT"}) ::unsetenv(other);
  ::dup2(out, STDOUT_FILENO);
  ::execvp(words[0], words.data());
  std::fprintf(stderr, "anello-tune: cannot start %s: %s\n", words[0], std::strerror(errno));
  ::_exit(127);
}

}  // namespace

schedule::Topology Job::topology() const {
  schedule::Topology topology;
  topology.size = ranks;
  topology.network = network;
  topology.board = !network;
  topology.board_bytes = network ? 0 : kBoardBytes;
  topology.staging_bytes = network ? 0 : schedule::usual_staging_bytes(ranks);
  return topology;
}

schedule::Reach Job::reach() const {
  if (network) return schedule::Reach::none;
  return shared ? schedule::Reach::store : schedule::Reach::read;
}

std::string Job::describe() const {
  return text(ranks, " ranks, ",
              network  ? "tcp"
              : shared ? "shared memory, anello_mem_alloc"
                       : "shared memory, malloc");
}

std::string Way::name() const {
  if (algorithm.empty()) return "library";
  return chunk_bytes == 0 ? algorithm : text(algorithm, "/", chunk_bytes);
}

schedule::Call call_of(const std::string& collective, std::size_t bytes, int ranks) {
  schedule::Call call;
  for (const Collective each : schedule::kCollectives)
    if (collective == schedule::name(each)) call.collective = each;
  call.element_bytes = kElementBytes;
  call.count = 1;
  const std::size_t smallest = schedule::largest_input(call, ranks) * kElementBytes;
  call.count = call.collective == Collective::barrier ? 0 : std::max<std::size_t>(1, bytes / smallest);
  return call;
}

std::vector<Way> ways_for(const Job& job, const schedule::Call& call) {
  std::vector<Way> ways{{}};
  schedule::Call reaching = call;
  reaching.reach = job.reach();
  for (const schedule::Algorithm& row : schedule::catalog()) {
    if (row.collective != call.collective || !row.fits(reaching, job.topology())) continue;
    ways.push_back({std::string(row.name), 0});
    schedule::Call apart = call;
    const bool by_messages = row.name != "exchange" && row.fits(apart, job.topology());
    const std::size_t bytes = schedule::largest_input(call, job.ranks) * call.element_bytes;
    if (!job.chunks || !by_messages || bytes < kChunksFrom) continue;
    for (const std::size_t chunk : kChunks) ways.push_back({std::string(row.name), chunk});
  }
  return ways;
}

std::vector<Measured> run_job(const Job& job, const std::function<void(const std::string&)>& told) {
  const TemporaryFile table;
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  int ends[2];
  if (::pipe(ends) != 0) throw std::runtime_error(text("pipe: ", std::strerror(errno)));
  const pid_t pid = start({launcher(self), "-np", std::to_string(job.ranks), self, "--as-rank", as_json(job)},
                          table.path(), job, ends[1]);
  ::close(ends[1]);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> lines(::fdopen(ends[0], "r"), &std::fclose);
  std::vector<Measured> all;
  char* line = nullptr;
  std::size_t capacity = 0;
  while (::getline(&line, &capacity, lines.get()) > 0) {
    all.push_back(measured_from(line));
    const auto best =
        std::min_element(all.back().times.begin(), all.back().times.end(),
                         [](const auto& a, const auto& b) { return a.second.front() < b.second.front(); });
    told(text(job.describe(), ": ", all.back().collective, " of ", all.back().bytes, " bytes, ",
              all.back().times.size(), " ways, ", best->second.size(), " rounds"));
  }
  std::free(line);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    throw std::runtime_error(
        text("measuring ", job.describe(), " failed; what anellorun and the ranks say stands above"));
  return all;
}

}  // namespace anello::tune
