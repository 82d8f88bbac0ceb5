// Where ranks meet, as people and launchers write it: URLs, the environment's numbers, and unique ids.
#include "base/error.h"
#include "bootstrap/launcher.h"
#include "bootstrap/meeting.h"
#include "bootstrap/unique_id.h"
#include "fuzz/input.h"

#include <cstdlib>
#include <map>
#include <string>

using namespace anello;
using namespace anello::bootstrap;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t count) {
  fuzz::Input input(bytes, count);
  const int which = input.below(3);
  try {
    if (which == 0) {
      const Place place = parse_url(input.text());
      if (place.kind == Place::Kind::tcp && (place.host.empty() || place.port < 1 || place.port > 65534)) std::abort();
      if (place.kind == Place::Kind::file && (place.host.empty() || place.host[0] != '/')) std::abort();
      if (place.kind == Place::Kind::name && place.host.empty()) std::abort();
    } else if (which == 1) {
      std::map<std::string, std::string> set;
      for (const char* const name :
           {"RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK",
            "PMI_SIZE", "SLURM_PROCID", "SLURM_NTASKS", "MASTER_ADDR", "MASTER_PORT", "ANELLO_JOB"}) {
        const auto word = input.take_bytes(std::size_t(input.below(12)));
        if (!word.empty()) set[name] = {reinterpret_cast<const char*>(word.data()), word.size()};
      }
      const Launch launch = read_launch(
          [&](const char* name) { return set.contains(name) ? set.at(name).c_str() : nullptr; }, -1, -1, true);
      if (launch.rank < 0 || launch.rank >= launch.size || launch.master_port < 0 || launch.master_port > 65534)
        std::abort();
    } else {
      anello_unique_id_t id{};
      const auto said = input.rest();
      if (!said.empty()) std::memcpy(id.bytes, said.data(), std::min(said.size(), sizeof id.bytes));
      decode_id(id);
    }
  } catch (const Error& error) {
    if (error.code() != ANELLO_ERR_ARGUMENT && error.code() != ANELLO_ERR_VERSION) std::abort();
  }
  return 0;
}
