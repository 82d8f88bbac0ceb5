#include "failures/rank.h"

#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iostream>
#include <map>

#include <signal.h>
#include <unistd.h>

namespace failures {

namespace {

constexpr unsigned char kCanary = 0xA5;

std::map<std::string, Role::Body>& roles() {
  static std::map<std::string, Role::Body> all;
  return all;
}

int environment_number(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? -1 : std::atoi(value);
}

}  // namespace

std::int64_t now_ns() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000'000ll + time.tv_nsec;
}

void sleep_ms(std::int64_t ms) {
  timespec left{ms / 1000, ms % 1000 * 1'000'000};
  while (nanosleep(&left, &left) != 0) {
  }
}

Rank::Rank() : rank_(environment_number("RANK")), size_(environment_number("WORLD_SIZE")) {}

std::string Rank::setting(const std::string& name, const std::string& fallback) const {
  const char* const value = std::getenv(("SETTING_" + name).c_str());
  return value == nullptr ? fallback : value;
}

int Rank::number(const std::string& name, int fallback) const {
  return std::stoi(setting(name, std::to_string(fallback)));
}

anello_comm_t Rank::create(std::int64_t timeout_ms) {
  anello_config_t config = ANELLO_CONFIG_INITIALIZER;
  config.timeout_ms = timeout_ms;
  anello_comm_t comm = ANELLO_COMM_NULL;
  if (!check(anello_comm_create(&config, &comm), "anello_comm_create")) _exit(3);
  return comm;
}

void Rank::write_line(std::int64_t time_ns, const std::string& text) {
  std::string line = std::to_string(time_ns) + " " + text.substr(0, 3500);
  for (char& c : line) {
    if (c == '\n') c = ' ';
  }
  line += '\n';
  // Below PIPE_BUF: one piece, whatever other thread or child writes.
  [[maybe_unused]] const ssize_t written = ::write(STDOUT_FILENO, line.data(), line.size());
}

void Rank::report(const std::string& what, anello_result_t result, anello_comm_t comm) {
  const std::int64_t time = now_ns();
  say_at(time, what, " ", anello_result_name(result), " ", result == ANELLO_OK ? "" : anello_last_error(comm));
}

std::string Rank::hear() {
  std::string line;
  for (char c = 0; ::read(STDIN_FILENO, &c, 1) == 1 && c != '\n';) line += c;
  return line;
}

bool Rank::check(bool holds, const std::string& what) {
  if (!holds) say("WRONG ", what);
  return holds;
}

bool Rank::check(anello_result_t result, const std::string& what, anello_comm_t comm) {
  if (result != ANELLO_OK) say("WRONG ", what, ": ", anello_result_name(result), " ", anello_last_error(comm));
  return result == ANELLO_OK;
}

Role::Role(const char* name, Body body) { roles()[name] = body; }

int Role::play(const std::string& name) {
  const auto found = roles().find(name);
  if (found == roles().end()) return 64;
  struct sigaction pipe_action {};
  sigaction(SIGPIPE, nullptr, &pipe_action);
  if (pipe_action.sa_handler != SIG_DFL) return 65;  // else a stray SIGPIPE would go unseen
  Rank rank;
  found->second(rank);
  rank.say("done");
  return 0;
}

Memory::Memory(std::size_t bytes, bool mapped) : bytes_(bytes), mapped_(mapped) {
  if (!mapped) {
    memory_ = std::malloc(bytes);
  } else if (anello_mem_alloc(bytes, &memory_) != ANELLO_OK) {
    std::cerr << anello_last_error(ANELLO_COMM_NULL) << std::endl;
  }
  if (memory_ == nullptr) std::_Exit(1);
}

Memory::~Memory() {
  if (mapped_) {
    anello_mem_free(memory_);
  } else {
    std::free(memory_);
  }
}

void Canary::fill(void* memory, std::size_t bytes) { std::memset(memory, kCanary, bytes); }

std::string Canary::look(const void* memory, std::size_t bytes) {
  const auto* const at = static_cast<const unsigned char*>(memory);
  for (std::size_t i = 0; i < bytes; ++i) {
    if (at[i] != kCanary) return "broken at byte " + std::to_string(i) + " of " + std::to_string(bytes);
  }
  return "intact";
}

}  // namespace failures
