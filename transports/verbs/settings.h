#pragma once
// The ANELLO_VERBS_* variables (lib/base/environment.def).
#include "base/config.h"

#include <cstdint>
#include <string>

namespace anello::transport {

struct VerbsSettings {
  std::string devices;
  int gid_index = -1;
  int pkey_index = 0;
  int service_level = 0;
  int traffic_class = 0;
  int timeout = 18;
  int retry = 7;
  int rnr_timer = 12;
  std::int64_t cache = -1;
  bool dma_buf = false;
  std::string port_range = {};  // ANELLO_PORT_RANGE, for the listeners of iWARP
  // Without a completion, after which the pieces of a withdrawn transfer end with their queue pair. The rank's lock is
  // held meanwhile. No variable: a batch takes 70 ms at 1 Gbit/s, and only emulated adapters are slower.
  int withdraw_ms = 100;

  static VerbsSettings of(const Config& config) {
    return {config.verbs_devices,
            int(config.verbs_gid_index),
            int(config.verbs_pkey_index),
            int(config.verbs_service_level),
            int(config.verbs_traffic_class),
            int(config.verbs_timeout),
            int(config.verbs_retry),
            int(config.verbs_rnr_timer),
            config.verbs_cache,
            config.verbs_dmabuf,
            config.port_range};
  }
};

}  // namespace anello::transport
