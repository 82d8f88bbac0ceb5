#pragma once

namespace anello {

// Processors' worth of time that this process's cgroup and those above it (v1 and v2) grant, as far as they are visible
// here: the smallest of their quotas, such as 1.5. 0: no limit.
double processor_quota();

}  // namespace anello
