#pragma once
// How much a test does, where a person or the nightly suite asks for more than it does by itself.
#include <cstdint>
#include <cstdlib>

namespace anello::testing {

// A number from the environment, as FAILURE_KILLS or SOAK_FRAMES.
inline std::int64_t knob(const char* name, std::int64_t fallback) {
  const char* const value = std::getenv(name);
  return value == nullptr ? fallback : std::atoll(value);
}

}  // namespace anello::testing
