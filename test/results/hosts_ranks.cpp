// Ranks on several "hosts", which are processes here: ranks of one are threads that share memory, and tcp joins the
// processes. Arguments: the host of each rank, as 0,1,1,0, and the number of this process among them (default: RANK);
// without any, one rank as the environment says. Checks results and what crosses between hosts; ends with 1 and says
// what was wrong.
#include "support/thread_ranks.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

using anello::test::Rank;
using anello::test::Report;

class Check {
 public:
  explicit Check(const Rank& me) : me_(me) {}

  void run() {
    const auto size = std::size_t(me_.size);
    for (const char* algorithm : {"", "hierarchical", "leaders", "ring"}) {
      // No data for some, a block each, several chunks.
      for (const std::size_t count : {std::size_t(1), size - 1, 24 * size, std::size_t(50'021), std::size_t(600'000)}) {
        for (const bool in_place : {false, true}) {
          sums<std::int32_t>(ANELLO_INT32, algorithm, count, in_place);
          sums<std::int64_t>(ANELLO_INT64, algorithm, count, in_place);
          same_bits(algorithm, count, in_place);
        }
      }
    }
    for (const std::size_t count : {std::size_t(1), std::size_t(23), std::size_t(70'001)}) {
      for (const bool in_place : {false, true}) gathered(count, in_place);
      for (int root = 0; root < me_.size; ++root) passed_on(count, root);
    }
    half_precision();
    chosen(16, "leaders");
    chosen(100'000, "hierarchical");
    crossing();
    children();
  }

 private:
  void allreduce(const char* algorithm, const void* in, void* out, std::size_t count, anello_dtype_t dtype,
                 anello_op_t op) {
    anello_call_t call = ANELLO_CALL_INITIALIZER;
    call.kind = ANELLO_ALLREDUCE;
    call.dtype = dtype;
    call.op = op;
    call.sendbuf = in;
    call.recvbuf = out;
    call.count = count;
    call.algorithm = *algorithm == '\0' ? nullptr : algorithm;
    call.label = algorithm;
    me_.ok(anello_post(me_.comm, &call, nullptr), std::string("allreduce by ") + algorithm);
  }
  template <class Number>
  void sums(anello_dtype_t dtype, const char* algorithm, std::size_t count, bool in_place) {
    std::vector<Number> in(count), out(count);
    for (std::size_t i = 0; i < count; ++i) in[i] = Number(i % 1000) * (me_.rank + 1) + me_.rank;
    if (in_place) out = in;
    allreduce(algorithm, in_place ? ANELLO_IN_PLACE : in.data(), out.data(), count, dtype, ANELLO_SUM);
    const Number ranks = me_.size;
    for (std::size_t i = 0; i < count; ++i) {
      const Number expected = Number(i % 1000) * (ranks * (ranks + 1) / 2) + ranks * (ranks - 1) / 2;
      if (out[i] == expected) continue;
      me_.report.wrong("rank ", me_.rank, " by '", algorithm, "', element ", i, " of ", count, " is ", out[i], ", not ",
                       expected);
      return;
    }
  }
  void collective(anello_call_t call, const void* in, void* out, std::size_t count) {
    call.dtype = ANELLO_INT32;
    call.sendbuf = in;
    call.recvbuf = out;
    call.count = count;
    call.algorithm = "hierarchical";
    me_.ok(anello_post(me_.comm, &call, nullptr), "hierarchical");
  }
  void gathered(std::size_t count, bool in_place) {
    anello_call_t call = ANELLO_CALL_INITIALIZER;
    call.kind = ANELLO_ALLGATHER;
    std::vector<std::int32_t> in(count), out(count * std::size_t(me_.size), -1);
    for (std::size_t i = 0; i < count; ++i) in[i] = me_.rank * 100'000 + std::int32_t(i);
    if (in_place) std::copy(in.begin(), in.end(), out.begin() + std::ptrdiff_t(count) * me_.rank);
    collective(call, in_place ? ANELLO_IN_PLACE : in.data(), out.data(), count);
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (out[i] == std::int32_t(i / count) * 100'000 + std::int32_t(i % count)) continue;
      return me_.report.wrong("rank ", me_.rank, ", allgather of ", count, ": element ", i, " is ", out[i]);
    }
  }
  void passed_on(std::size_t count, int root) {
    anello_call_t call = ANELLO_CALL_INITIALIZER;
    call.kind = ANELLO_BROADCAST;
    call.peer = root;
    std::vector<std::int32_t> data(count, -1);
    for (std::size_t i = 0; i < count && me_.rank == root; ++i) data[i] = root + std::int32_t(i);
    collective(call, data.data(), data.data(), count);
    for (std::size_t i = 0; i < count; ++i) {
      if (data[i] == root + std::int32_t(i)) continue;
      return me_.report.wrong("rank ", me_.rank, ", broadcast of ", count, " from ", root, ": element ", i, " is ",
                              data[i]);
    }
  }
  // Of floats whose sum depends on the order, and near what it should be.
  void same_bits(const char* algorithm, std::size_t count, bool in_place) {
    std::vector<float> in(count), out(count);
    for (std::size_t i = 0; i < count; ++i) in[i] = 1.0f / float(1 + (i * 7 + std::size_t(me_.rank) * 131) % 977);
    if (in_place) out = in;
    allreduce(algorithm, in_place ? ANELLO_IN_PLACE : in.data(), out.data(), count, ANELLO_FLOAT32, ANELLO_AVG);
    std::vector<float> first = out;
    me_.ok(anello_broadcast(first.data(), count, ANELLO_FLOAT32, 0, me_.comm), "broadcast");
    if (std::memcmp(first.data(), out.data(), count * sizeof(float)) != 0)
      me_.report.wrong("ranks 0 and ", me_.rank, " differ in ", count, " floats by '", algorithm, "'");
    for (std::size_t i = 0; i < count; ++i) {
      double expected = 0;
      for (int rank = 0; rank < me_.size; ++rank) expected += 1.0 / double(1 + (i * 7 + std::size_t(rank) * 131) % 977);
      expected /= me_.size;
      if (std::abs(out[i] - expected) <= expected * 1e-6) continue;
      me_.report.wrong("rank ", me_.rank, " by '", algorithm, "', mean ", i, " is ", out[i], ", not ", expected);
      return;
    }
  }
  // 16-bit sums take an algorithm where no rounded partial sum travels: 256 + 1 + .. is not lost in bfloat16.
  void half_precision() {
    std::vector<std::uint16_t> in(40'000, me_.rank == 0 ? 0x4380 : 0x3f80), out(in.size());  // 256; 1
    allreduce("", in.data(), out.data(), in.size(), ANELLO_BFLOAT16, ANELLO_SUM);
    float sum = float(256 + me_.size - 1);
    std::uint32_t bits;
    std::memcpy(&bits, &sum, sizeof bits);
    bits += 0x7fff + (bits >> 16 & 1);
    for (const std::uint16_t each : out) {
      if (each == bits >> 16) continue;
      me_.report.wrong("rank ", me_.rank, ": a bfloat16 sum is ", each, ", not ", bits >> 16);
      return;
    }
    if (explain(ANELLO_BFLOAT16, in.size())["algorithm"] != "pairwise")
      me_.report.wrong("16-bit sums are not by pairwise");
  }
  nlohmann::json explain(anello_dtype_t dtype, std::size_t count) {
    anello_call_t call = ANELLO_CALL_INITIALIZER;
    call.kind = ANELLO_ALLREDUCE;
    call.dtype = dtype;
    call.count = count;
    std::string json(1 << 16, '\0');
    std::size_t length = 0;
    me_.ok(anello_explain(me_.comm, &call, json.data(), json.size(), &length), "explain");
    return nlohmann::json::parse(json.substr(0, length));
  }
  void chosen(std::size_t count, const char* algorithm) {
    const nlohmann::json said = explain(ANELLO_FLOAT32, count);
    if (said["algorithm"] != algorithm)
      me_.report.wrong("rank ", me_.rank, " takes ", said["algorithm"], " for ", count, " floats, not ", algorithm);
  }
  // 2(H-1)/H of the bytes out of each host: over all of them 2(H-1) times the vector.
  void crossing() {
    // Each host's lowest rank counts: all lower ones are across the network.
    std::int64_t hosts = 1;
    for (int lower = 0; lower < me_.rank; ++lower) {
      const char* transport = "";
      me_.ok(anello_comm_transport(me_.comm, lower, &transport), "transport");
      if (std::string(transport) != "tcp") hosts = 0;
    }
    me_.ok(anello_allreduce(ANELLO_IN_PLACE, &hosts, 1, ANELLO_INT64, ANELLO_SUM, me_.comm), "hosts");
    const std::size_t bytes = 4 * 360'360;  // of any number of blocks up to 15
    std::int64_t crossed = 0;
    const nlohmann::json said = explain(ANELLO_FLOAT32, bytes / 4);
    for (const nlohmann::json& peer : said["peers"])
      if (peer["transport"] == "tcp") crossed += peer["sent"].get<std::int64_t>();
    me_.ok(anello_allreduce(ANELLO_IN_PLACE, &crossed, 1, ANELLO_INT64, ANELLO_SUM, me_.comm), "crossed");
    const std::int64_t expected = 2 * (hosts - 1) * std::int64_t(bytes);
    if (hosts < 2 || crossed != expected)
      me_.report.wrong("rank ", me_.rank, ": ", crossed, " bytes cross between ", hosts, " hosts, not ", expected);
  }
  // A communicator of others, numbered from the end, has hosts of its own.
  void children() {
    anello_comm_t reversed;
    me_.ok(anello_comm_split(me_.comm, 0, -me_.rank, &reversed), "split");
    Check child(Rank{reversed, me_.size - 1 - me_.rank, me_.size, me_.report});
    child.sums<std::int32_t>(ANELLO_INT32, "", 50'021, true);
    child.chosen(50'021, "hierarchical");
    me_.ok(anello_comm_destroy(reversed), "destroy");
  }

  const Rank me_;
};

void run_rank(anello_config_t config, Report& report) {
  anello_comm_t comm = ANELLO_COMM_NULL;
  if (anello_comm_create(&config, &comm) != ANELLO_OK)
    return report.wrong("rank ", config.rank, " was not created: ", anello_last_error(ANELLO_COMM_NULL));
  Rank me{comm, 0, 0, report};
  anello_comm_rank(comm, &me.rank);
  anello_comm_size(comm, &me.size);
  Check(me).run();
  anello_comm_destroy(comm);
}

}  // namespace

int main(int argc, char** argv) {
  Report report;
  anello_config_t config = ANELLO_CONFIG_INITIALIZER;
  config.timeout_ms = 40'000;
  if (argc < 2) {
    run_rank(config, report);
  } else {
    std::vector<int> host_of;
    for (const char* at = argv[1]; *at != '\0'; at += *at == ',' ? 1 : 0) {
      char* end;
      host_of.push_back(int(std::strtol(at, &end, 10)));
      at = end;
    }
    const int host = std::atoi(argc > 2 ? argv[2] : std::getenv("RANK"));
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < host_of.size(); ++rank) {
      if (host_of[rank] != host) continue;
      config.rank = int(rank);
      config.world_size = int(host_of.size());
      config.transports = "inproc,tcp";
      threads.emplace_back(run_rank, config, std::ref(report));
    }
    for (std::thread& thread : threads) thread.join();
  }
  std::fputs(report.text().c_str(), stderr);
  return report.text().empty() ? 0 : 1;
}
