#include "tune/wire.h"

#include <nlohmann/json.hpp>

namespace anello::tune {

using nlohmann::json;

std::string as_json(const Job& job) {
  return json{{"ranks", job.ranks}, {"network", job.network}, {"shared", job.shared}, {"collectives", job.collectives},
              {"sizes", job.sizes}, {"seconds", job.seconds}, {"rounds", job.rounds}, {"chunks", job.chunks},
              {"table", job.table}}
      .dump();
}

Job job_from(const std::string& text) {
  const json all = json::parse(text);
  Job job;
  all.at("ranks").get_to(job.ranks);
  all.at("network").get_to(job.network);
  all.at("shared").get_to(job.shared);
  all.at("collectives").get_to(job.collectives);
  all.at("sizes").get_to(job.sizes);
  all.at("seconds").get_to(job.seconds);
  all.at("rounds").get_to(job.rounds);
  all.at("chunks").get_to(job.chunks);
  all.at("table").get_to(job.table);
  return job;
}

std::string as_json(const Measured& measured) {
  json times = json::array();
  for (const auto& [way, each] : measured.times)
    times.push_back({{"algorithm", way.algorithm}, {"chunk", way.chunk_bytes}, {"us", each}});
  return json{{"collective", measured.collective}, {"bytes", measured.bytes}, {"times", times}}.dump();
}

Measured measured_from(const std::string& text) {
  const json all = json::parse(text);
  Measured measured{all.at("collective"), all.at("bytes"), {}};
  for (const json& each : all.at("times"))
    measured.times[{each.at("algorithm"), each.at("chunk")}] = each.at("us").get<std::vector<double>>();
  return measured;
}

}  // namespace anello::tune
