// Catch2, of version 2 or 3, whichever Meson found. Tests are written with the names of 2.
#pragma once

#if ANELLO_CATCH2 == 2
#include <catch2/catch.hpp>
#else
#include <catch2/catch_approx.hpp>
#include <catch2/catch_session.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators_all.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <string>

namespace Catch {
namespace Matchers {
// In 3 that name is for ranges.
inline auto Contains(const std::string& text) { return ContainsSubstring(text); }
}  // namespace Matchers
using namespace Matchers;
}  // namespace Catch

using Catch::Approx;
#endif
