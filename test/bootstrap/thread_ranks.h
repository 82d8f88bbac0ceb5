#pragma once
// Ranks as threads of the test's process.
#include "bootstrap/join.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace anello::testing {

// How one rank's join ended: a job or an error.
struct Joined {
  std::unique_ptr<control::Job> job;
  Error error;
};

inline Joined join_one(const anello_config_t& config) {
  Joined joined;
  try {
    joined.job = bootstrap::join(config);
  } catch (const Error& error) {
    joined.error = error;
  }
  return joined;
}

// configure(rank, config) may change what each rank says; rank and size are set.
inline std::vector<Joined> join_threads(int size, const std::function<void(int, anello_config_t&)>& configure) {
  std::vector<Joined> all(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      anello_config_t config = ANELLO_CONFIG_INITIALIZER;
      config.rank = rank;
      config.world_size = size;
      config.timeout_ms = 30'000;
      configure(rank, config);
      all[static_cast<std::size_t>(rank)] = join_one(config);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return all;
}

inline std::vector<Joined> join_threads_by_id(int size, const char* transports = nullptr) {
  const anello_unique_id_t id = bootstrap::make_unique_id(true);
  return join_threads(size, [&](int, anello_config_t& config) {
    config.unique_id = &id;
    config.transports = transports;
  });
}

}  // namespace anello::testing
