// The placement of a rank, and the load of the machine.
#pragma once

#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace compare {

// This rank's number on its host, from the launcher's variables; known before the library has joined anything. If one
// machine simulates several hosts, COMPARE_RANK_FROM names the variable to use instead.
inline int launched_rank() {
  if (const char* from = std::getenv("COMPARE_RANK_FROM"))
    if (const char* value = std::getenv(from)) return std::atoi(value);
  for (const char* name : {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMI_RANK", "RANK"})
    if (const char* value = std::getenv(name)) return std::atoi(value);
  return 0;
}

inline std::vector<int> allowed_processors() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof allowed, &allowed);
  std::vector<int> processors;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &allowed)) processors.push_back(cpu);
  return processors;
}

// Threads that a library makes later inherit the processor.
inline void pin_to(int cpu) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  sched_setaffinity(0, sizeof one, &one);
}

// The seconds of processor time that the whole machine has used or that its host has taken. Interrupts are left out,
// because they are due to the loop's own packets.
inline double machine_cpu_seconds() {
  std::ifstream stat("/proc/stat");
  std::string cpu;
  double user = 0, nice = 0, system = 0, idle = 0, iowait = 0, irq = 0, softirq = 0, steal = 0;
  stat >> cpu >> user >> nice >> system >> idle >> iowait >> irq >> softirq >> steal;
  return (user + nice + system + steal) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace compare
