#include "perf/rdma.h"

#include "transports/verbs/ceiling.h"

namespace perf {

Rdma measure_rdma() {
  const anello::transport::VerbsCeiling ceiling = anello::transport::measure_verbs_ceiling();
  return {ceiling.port, ceiling.latency_us, ceiling.gbps, ceiling.why_not};
}

}  // namespace perf
