#pragma once
// The text that a program prints for an exception that ends it.
#include <exception>
#include <new>
#include <stdexcept>
#include <string>

namespace shared {

inline std::string complaint(const std::exception& failure) {
  // The standard library's own texts for these name its functions.
  const bool too_much = dynamic_cast<const std::bad_alloc*>(&failure) != nullptr ||
                        dynamic_cast<const std::length_error*>(&failure) != nullptr;
  return too_much ? "not enough memory for what was asked; ask for less" : failure.what();
}

}  // namespace shared
