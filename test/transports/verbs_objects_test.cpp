// Lanes over verbs where the adapter has too few objects for them: queue pairs, completion queues, memory regions. A
// control group of tools/rdma-vm's kernel counts them. All cases need its devices.
#include "transports/verbs/endpoint.h"
#include "transports/verbs_lanes.h"

#include <fstream>
#include <set>
#include <string>

#include <unistd.h>

using namespace anello;
using namespace anello::testing;
using namespace anello::transport;

namespace {

const std::string kRoot = "/sys/fs/cgroup";

// What this process makes on a device from here on.
class ObjectLimit {
 public:
  explicit ObjectLimit(const std::string& device) : device_(named(device)) {
    REQUIRE(run("mountpoint -q " + kRoot + " || mount -t cgroup2 none " + kRoot));
    REQUIRE(run("echo +rdma > " + kRoot + "/cgroup.subtree_control"));
    REQUIRE(run("mkdir -p " + folder_));
    join(folder_);
  }
  ~ObjectLimit() {
    join(kRoot);
    ::rmdir(folder_.c_str());
  }
  ObjectLimit(const ObjectLimit&) = delete;
  ObjectLimit& operator=(const ObjectLimit&) = delete;

  void set(int objects) const {
    std::ofstream file(folder_ + "/rdma.max");
    file << device_ << " hca_object=" << objects << std::flush;
    REQUIRE(file.good());
  }
  // "rxe0 hca_handle=0 hca_object=7"; empty if there is nothing.
  std::string in_use() const {
    std::ifstream file(folder_ + "/rdma.current");
    for (std::string line; std::getline(file, line);) {
      if (line.rfind(device_ + " ", 0) == 0) return line;
    }
    return {};
  }

 private:
  static void join(const std::string& group) { std::ofstream(group + "/cgroup.procs") << ::getpid() << std::flush; }

  const std::string device_;
  const std::string folder_ = kRoot + "/verbs-test";
};

}  // namespace

TEST_CASE("a lane for which the adapter has too few objects says which, and works if only the transfers lack them",
          "[adapter]") {
  VerbsRemoteMemory memory({VerbsPort::open(on("rxe0"))}), theirs({VerbsPort::open(on("rxe1"))});
  const ObjectLimit limit("rxe0");
  const std::string at_first = limit.in_use();
  std::set<std::string> lacked;
  int copying = 0, whole = 0;
  for (int objects = 0; whole == 0; ++objects) {
    CAPTURE(objects);
    REQUIRE(objects < 20);
    limit.set(objects);
    auto sockets = connected(false);
    try {
      VerbsEndpoint end(1, memory, std::move(sockets.first)), peer(0, theirs, std::move(sockets.second));
      ++(end.transfers().is_over() ? copying : whole);
      meet(end, peer);
      Collector there(peer), back(end);
      CHECK(move(end, there, 0, 50'000));
      CHECK(move(peer, back, 1, 50'000));
    } catch (const Error& error) {
      CHECK(error.code() == ANELLO_ERR_RESOURCE);
      CHECK_THAT(error.text(), Catch::Contains(named("rxe0 port 1")) && Catch::Contains("rdma.max"));
      CHECK(copying + whole == 0);
      for (const char* call : {"ibv_reg_mr", "ibv_create_cq", "ibv_create_qp"}) {
        if (error.text().find(call) != std::string::npos) lacked.insert(call);
      }
    }
    CHECK(limit.in_use() == at_first);
  }
  CHECK(lacked == std::set<std::string>{"ibv_reg_mr", "ibv_create_cq", "ibv_create_qp"});
  CHECK(copying > 0);
}
