// Lists of hosts as schedulers write them.
#include "base/node_list.h"
#include "support/catch.h"

#include <string>

using anello::expand_node_list;
using Catch::Matchers::Contains;
using Names = std::vector<std::string>;

namespace {

Names names(std::string_view list) {
  const anello::NodeList expanded = expand_node_list(list, 100);
  CHECK(expanded.wrong == "");
  return expanded.names;
}

}  // namespace

TEST_CASE("a list of hosts is every name that it stands for, in order") {
  CHECK(names("node[01-03,07]") == Names{"node01", "node02", "node03", "node07"});
  CHECK(names("login") == Names{"login"});
  CHECK(names("a,b,c") == Names{"a", "b", "c"});
  CHECK(names("gpu[1-2]-ib,login,n[9-11]") == Names{"gpu1-ib", "gpu2-ib", "login", "n9", "n10", "n11"});
  CHECK(names("r[1-2]n[1-2]") == Names{"r1n1", "r1n2", "r2n1", "r2n2"});
  CHECK(names("n[098-101]") == Names{"n098", "n099", "n100", "n101"});
  CHECK(names("[1-2]") == Names{"1", "2"});
}

TEST_CASE("what is no list of hosts is refused, and says where and why") {
  const auto wrong = [](std::string_view list) {
    const anello::NodeList expanded = expand_node_list(list, 100);
    CHECK_FALSE(expanded);
    CHECK(expanded.names.empty());
    return expanded.wrong;
  };
  for (const char* list : {"", ",", "a,", "a,,b"}) CHECK_THAT(wrong(list), Contains("'': a name is missing"));
  for (const char* list : {"n[", "n[1", "a,n[1,2"}) CHECK_THAT(wrong(list), Contains("a bracket is not closed"));
  for (const char* list : {"n]1", "n[1]]", "]"}) CHECK_THAT(wrong(list), Contains("is closed that is not open"));
  for (const char* list : {"n[]", "n[1-]", "n[2-1]", "n[x]", "n[1,]", "n[1-99999999999]", "n[-1]", "n[[1]]", "n[1 2]"})
    CHECK_THAT(wrong(list), Contains("is no number and no range of numbers"));
  CHECK_THAT(wrong("a,n[3-1]"), Contains("'n[3-1]': '3-1' is no number"));
}

TEST_CASE("a list of too many hosts, or of names that no host has, is refused before it is made") {
  CHECK(expand_node_list("n[1-100]", 100));
  CHECK_THAT(expand_node_list("n[1-101]", 100).wrong, Contains("more than 100 hosts"));
  CHECK_THAT(expand_node_list("a,n[1-100]", 100).wrong, Contains("more than 100 hosts"));
  CHECK_THAT(expand_node_list("n[1-999999999]", 100).wrong, Contains("more than 100 hosts"));
  CHECK_THAT(expand_node_list("n[1-99999][1-99999][1-99999][1-99999]", 100).wrong, Contains("more than 100 hosts"));
  // Their number is 2 to the power of 64.
  CHECK_THAT(expand_node_list("n[1-65536][1-65536][1-65536][1-65536]", 100).wrong, Contains("more than 100 hosts"));
  std::string nested;
  for (int i = 0; i < 100'000; ++i) nested += "[1]";
  CHECK_THAT(expand_node_list(nested, 100).wrong, Contains("more than 8 brackets"));
  CHECK_THAT(expand_node_list(std::string(256, 'n'), 100).wrong, Contains("longer than 255"));
  CHECK(expand_node_list(std::string(255, 'n'), 100));
}
