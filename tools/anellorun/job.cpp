#include "anellorun/job.h"

#include "anellorun/failure.h"
#include "anellorun/socket_address.h"

#include "base/network_interfaces.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include <array>
#include <cerrno>
#include <map>
#include <stdexcept>
#include <utility>

extern char** environ;

namespace anellorun {

std::string written(const MeetingPlace& place) { return anello::with_port(place.address, place.port); }

std::string new_job_name() {
  std::array<unsigned char, 8> bytes{};
  draw(bytes.data(), bytes.size());
  std::string name;
  for (unsigned char byte : bytes) {
    name += "0123456789abcdef"[byte >> 4];
    name += "0123456789abcdef"[byte & 15];
  }
  return name;
}

MeetingPlace place_on_this_host(const std::string& ports) {
  for (const std::string ip : {"127.0.0.1", "::1"}) {
    bool exists = true;
    int error = 0;
    for (const std::uint16_t port : allowed_ports(ports)) {
      SocketAddress address = socket_address(ip, port);
      if (listen_at(address)) return {ip, address.port()};
      error = errno;
      exists = error != EAFNOSUPPORT && error != EADDRNOTAVAIL;
      if (!exists) break;
    }
    if (exists) throw std::runtime_error(none_free(ports, error));
  }
  return {};
}

Job::Job(std::string name, const Secret* secret, MeetingPlace place, int world)
    : name_(std::move(name)), secret_(secret), place_(std::move(place)), world_(world) {
  make_ended_file(world);
}

// A mark and one byte for each rank, as the library reads it (lib/bootstrap/ended_ranks.h). Only this process can write
// it.
void Job::make_ended_file(int world) {
  constexpr char kMark[16] = "anello ended 1\n";
  const std::size_t bytes = sizeof kMark + static_cast<std::size_t>(world);
  ended_file_ = Descriptor(memfd_create("anello-ended", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!ended_file_) return;
  if (ftruncate(ended_file_.get(), static_cast<off_t>(bytes)) != 0) fail("ftruncate");
  void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ended_file_.get(), 0);
  if (at == MAP_FAILED) fail("mmap");
  memcpy(at, kMark, sizeof kMark);
  ended_ = static_cast<unsigned char*>(at) + sizeof kMark;
  if (fcntl(ended_file_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) != 0)
    fail("fcntl");
}

std::vector<std::string> Job::environment(const Share& share, int rank, int secret_fd, int launcher_fd,
                                          const std::string& threads) const {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string word = *entry;
    const auto equals = word.find('=');
    if (equals != std::string::npos && equals > 0) variables[word.substr(0, equals)] = word.substr(equals + 1);
  }
  variables["RANK"] = std::to_string(rank);
  variables["WORLD_SIZE"] = std::to_string(share.world);
  variables["LOCAL_RANK"] = std::to_string(share.slot + rank - share.first);
  variables["LOCAL_WORLD_SIZE"] = std::to_string(share.elastic() ? share.slots : share.ranks);
  if (share.elastic()) variables["HOROVOD_ELASTIC"] = "1";
  // As torchrun calls them.
  variables["GROUP_RANK"] = std::to_string(share.node);
  variables["GROUP_WORLD_SIZE"] = std::to_string(share.nodes);
  variables["TORCHELASTIC_RESTART_COUNT"] = std::to_string(share.restarts);
  variables["TORCHELASTIC_MAX_RESTARTS"] = std::to_string(share.most_restarts);
  // Else each rank's OpenMP would start a thread for each processor.
  variables["OMP_NUM_THREADS"] = threads;
  // Ranks of one host meet by the job's name if there is no address.
  for (const char* name : {"MASTER_ADDR", "MASTER_PORT"}) variables.erase(name);
  if (!place_.address.empty()) {
    variables["MASTER_ADDR"] = place_.address;
    variables["MASTER_PORT"] = std::to_string(place_.port);
  }
  if (!name_.empty()) variables["ANELLO_JOB"] = name_;
  for (const auto& [name, value] : share.program_of(rank).environment) variables[name] = value;
  // These come last: a descriptor number that the user has set means nothing here.
  variables.erase("ANELLO_SECRET_FD");
  if (secret_fd >= 0) variables["ANELLO_SECRET_FD"] = std::to_string(secret_fd);
  variables.erase("ANELLO_LAUNCHER_FD");
  if (launcher_fd >= 0) variables["ANELLO_LAUNCHER_FD"] = std::to_string(launcher_fd);
  variables["ANELLO_ENDED_FD"] = std::to_string(ended_file_.get());

  std::vector<std::string> entries;
  for (const auto& [name, value] : variables) entries.push_back(name + "=" + value);
  return entries;
}

}  // namespace anellorun
