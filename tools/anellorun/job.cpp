#include "anellorun/job.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <cerrno>
#include <map>
#include <system_error>

extern char** environ;

namespace anellorun {
namespace {

[[noreturn]] void fail(const char* call) { throw std::system_error(errno, std::generic_category(), call); }

void draw(void* into, std::size_t bytes) {
  // Up to 256 bytes come whole or not at all.
  if (getrandom(into, bytes, 0) != static_cast<ssize_t>(bytes)) fail("getrandom");
}

std::string random_name() {
  std::array<unsigned char, 8> bytes{};
  draw(bytes.data(), bytes.size());
  std::string name;
  for (unsigned char byte : bytes) {
    name += "0123456789abcdef"[byte >> 4];
    name += "0123456789abcdef"[byte & 15];
  }
  return name;
}

// Free when asked for. Another program may take it before rank 0 listens: rank 0 then says that the port is taken.
int free_port() {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) fail("socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof address;
  if (bind(socket.get(), reinterpret_cast<sockaddr*>(&address), bytes) != 0) fail("bind");
  if (getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &bytes) != 0) fail("getsockname");
  return ntohs(address.sin_port);
}

}  // namespace

Job::Job(const Options& options) : options_(options), name_(random_name()), port_(free_port()) {
  draw(secret_.data(), secret_.size());
}

Job::~Job() { explicit_bzero(secret_.data(), secret_.size()); }

Descriptor Job::secret_file() const {
  Descriptor file(memfd_create("anello-secret", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) fail("memfd_create");
  if (write(file.get(), secret_.data(), secret_.size()) != static_cast<ssize_t>(secret_.size())) fail("write");
  if (lseek(file.get(), 0, SEEK_SET) != 0) fail("lseek");
  if (fcntl(file.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0) fail("fcntl");
  return file;
}

std::vector<std::string> Job::environment(int rank, int secret_fd) const {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string word = *entry;
    const auto equals = word.find('=');
    if (equals != std::string::npos && equals > 0) variables[word.substr(0, equals)] = word.substr(equals + 1);
  }
  const std::string size = std::to_string(options_.ranks);
  variables["RANK"] = variables["LOCAL_RANK"] = std::to_string(rank);
  variables["WORLD_SIZE"] = variables["LOCAL_WORLD_SIZE"] = size;
  variables["MASTER_ADDR"] = "127.0.0.1";
  variables["MASTER_PORT"] = std::to_string(port_);
  variables["ANELLO_JOB"] = name_;
  for (const auto& [name, value] : options_.environment) variables[name] = value;
  // Last: a number of somebody else's choice means nothing here.
  variables["ANELLO_SECRET_FD"] = std::to_string(secret_fd);

  std::vector<std::string> entries;
  for (const auto& [name, value] : variables) entries.push_back(name + "=" + value);
  return entries;
}

}  // namespace anellorun
