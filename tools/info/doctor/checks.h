#pragma once
// The checks of anello-info --doctor. A problem keeps a job on this host from working; a warning slows it down, or
// fails for some jobs only, such as those over several hosts.
#include "shared/findings.h"

#include <string>

namespace info::doctor {

using shared::Finding;

inline Finding ok(std::string name, std::string value) {
  return {shared::Verdict::ok, std::move(name), std::move(value), "", ""};
}
inline Finding warning(std::string name, std::string value, std::string meaning, std::string remedy) {
  return {shared::Verdict::warning, std::move(name), std::move(value), std::move(meaning), std::move(remedy)};
}
inline Finding problem(std::string name, std::string value, std::string meaning, std::string remedy) {
  return {shared::Verdict::problem, std::move(name), std::move(value), std::move(meaning), std::move(remedy)};
}

Finding settings();
Finding transports();
Finding container();
Finding processors();
// It forks, so it must come before this process has threads.
Finding peer_memory();
Finding system_calls();
Finding shared_memory_folder();
Finding file_size();
Finding open_files();
Finding locked_memory();
Finding host_name();
Finding interfaces();
Finding ports();
Finding clock();
Finding clock_source();
Finding gpus();
Finding rdma();

}  // namespace info::doctor
