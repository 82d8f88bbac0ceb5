#pragma once
// The data that all ranks of one job share: its name, its secret, its meeting place, and the environment that passes
// them on.
#include "anellorun/descriptor.h"
#include "anellorun/secret.h"
#include "anellorun/share.h"

#include <string>
#include <vector>

namespace anellorun {

struct MeetingPlace {
  std::string address;  // empty: this host has no address, and its ranks meet by the job's name
  int port = 0;
};

// "10.1.2.3:29500", "[fd00::1]:29500"
std::string written(const MeetingPlace& place);

// A random name for a job.
std::string new_job_name();
// A port of the loopback that is free now. Another program may take it before rank 0 listens; rank 0 then says that the
// port is in use. ports: ANELLO_PORT_RANGE, or "" for any. Throws std::runtime_error if none of them is free.
MeetingPlace place_on_this_host(const std::string& ports);

class Job {
 public:
  // name: empty if ranks that this process does not know of belong to the job; secret: NULL if these have another one.
  // It must live as long. Throws std::system_error.
  Job(std::string name, const Secret* secret, MeetingPlace place, int world);
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  const Secret* secret() const { return secret_; }
  // Tells ranks which of them have ended, so that no rank waits for an ended rank to join. -1 if memory files are not
  // allowed.
  int ended_file() const { return ended_file_.get(); }
  void note_ended(int rank) {
    if (ended_ != nullptr && rank < world_) ended_[rank] = 1;
  }
  // "NAME=value" for every variable of rank. secret_fd, launcher_fd: the numbers that the secret's file and the socket
  // to the launcher have in the child, -1: there is none; threads: the rank's OMP_NUM_THREADS.
  std::vector<std::string> environment(const Share& share, int rank, int secret_fd, int launcher_fd,
                                       const std::string& threads) const;

 private:
  void make_ended_file(int world);

  const std::string name_;
  const Secret* const secret_;
  const MeetingPlace place_;
  const int world_;
  Descriptor ended_file_;
  volatile unsigned char* ended_ = nullptr;  // one byte for each rank, in that file
};

}  // namespace anellorun
