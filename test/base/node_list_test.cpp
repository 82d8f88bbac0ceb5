// Lists of hosts as schedulers write them.
#include "base/node_list.h"

#include <catch2/catch.hpp>

using anello::expand_node_list;
using Names = std::vector<std::string>;

TEST_CASE("a list of hosts is every name that it stands for, in order") {
  CHECK(expand_node_list("node[01-03,07]", 100) == Names{"node01", "node02", "node03", "node07"});
  CHECK(expand_node_list("login", 100) == Names{"login"});
  CHECK(expand_node_list("a,b,c", 100) == Names{"a", "b", "c"});
  CHECK(expand_node_list("gpu[1-2]-ib,login,n[9-11]", 100) == Names{"gpu1-ib", "gpu2-ib", "login", "n9", "n10", "n11"});
  CHECK(expand_node_list("r[1-2]n[1-2]", 100) == Names{"r1n1", "r1n2", "r2n1", "r2n2"});
  CHECK(expand_node_list("n[098-101]", 100) == Names{"n098", "n099", "n100", "n101"});
}

TEST_CASE("what is no list of hosts, or names too many, is refused") {
  for (const char* wrong :
       {"", ",", "a,", "n[", "n[]", "n[1", "n]1", "n[1-]", "n[2-1]", "n[x]", "n[1,]", "n[1-99999999999]", "n[-1]"}) {
    INFO(wrong);
    CHECK_FALSE(expand_node_list(wrong, 100));
  }
  CHECK_FALSE(expand_node_list("n[1-101]", 100));
  CHECK_FALSE(expand_node_list("n[1-999999999]", 100));
}
