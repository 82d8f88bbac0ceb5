#include "perf/explain.h"

#include "perf/failure.h"

#include <nlohmann/json.hpp>

#include <cstdio>

namespace perf {
namespace {

anello_kind_t kind_of(Collective collective) {
  switch (collective) {
    case Collective::allreduce: return ANELLO_ALLREDUCE;
    case Collective::broadcast: return ANELLO_BROADCAST;
    case Collective::allgather: return ANELLO_ALLGATHER;
    case Collective::reduce_scatter: return ANELLO_REDUCE_SCATTER_BLOCK;
    case Collective::barrier: return ANELLO_BARRIER;
    case Collective::sendrecv: return ANELLO_SEND;
    case Collective::reduce: return ANELLO_REDUCE;
    case Collective::gather: return ANELLO_GATHER;
    case Collective::scatter: return ANELLO_SCATTER;
    case Collective::alltoall: return ANELLO_ALLTOALL;
    case Collective::scan: return ANELLO_SCAN;
  }
  return ANELLO_BARRIER;
}

std::string printed(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string amount(double bytes) {
  return bytes < 1e4   ? printed("%.0f B", bytes)
         : bytes < 1e7 ? printed("%.1f kB", bytes / 1e3)
                       : printed("%.1f MB", bytes / 1e6);
}

}  // namespace

std::string explained(const Case& of, Memory memory, anello_comm_t comm) {
  int rank = 0, ranks = 1;
  check(anello_comm_rank(comm, &rank), "anello_comm_rank", comm);
  check(anello_comm_size(comm, &ranks), "anello_comm_size", comm);
  anello_call_t call = ANELLO_CALL_INITIALIZER;
  call.kind = kind_of(of.collective);
  call.dtype = of.dtype;
  call.op = of.op;
  call.peer = of.collective == Collective::sendrecv ? (rank + 1) % ranks : of.root;
  call.count = of.count;
  std::size_t length = 0;
  check(anello_explain(comm, &call, nullptr, 0, &length), "anello_explain", comm);
  std::string text(length + 1, '\0');
  check(anello_explain(comm, &call, text.data(), text.size(), &length), "anello_explain", comm);
  const auto told = nlohmann::json::parse(text.c_str());
  const auto bytes = [&](const char* which) { return amount(told["bytes"][which].get<double>()); };
  std::string line = std::to_string(of.bytes) + " B: ";
  if (!told.contains("algorithm")) {
    return line + told["protocol"].get<std::string>() + ", over " + told["transport"].get<std::string>();
  }
  line += told["algorithm"].get<std::string>();
  if (told["board"]) {
    line += " over the board";
  } else {
    line += ", " + std::to_string(told["chunks"].get<std::size_t>()) + " chunks of " +
            amount(told["chunk_bytes"].get<double>()) + ", " + std::to_string(told["steps"].get<std::size_t>()) +
            " steps";
  }
  line += "; rank " + std::to_string(rank) + " sends " + bytes("sent") + ", receives " + bytes("received") +
          ", reduces " + bytes("reduced");
  if (!told["expected_seconds"].is_null())
    line += printed("; a guess: %.1f us", told["expected_seconds"].get<double>() * 1e6);
  line += ". " + told["why"].get<std::string>();
  const std::string reaching = told["by_reach"]["store"].get<std::string>();
  if (memory != Memory::allocated && reaching != told["algorithm"].get<std::string>())
    line += " Where all ranks reach each other's buffers, as those of --memory " + std::string(memory_name(memory)) +
            " over shared memory: " + reaching + ".";
  return line;
}

}  // namespace perf
