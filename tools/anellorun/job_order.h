#pragma once
// What an agent is told about the job, in the body of a job frame.
#include "anellorun/frames.h"
#include "anellorun/secret.h"
#include "anellorun/share.h"

#include <memory>
#include <string>
#include <vector>

namespace anellorun {

struct JobOrder {
  std::string name;
  std::string folder;                    // in which the ranks start
  std::vector<std::string> environment;  // "NAME=value", added to that of the agent
  Share share;
};

void put_order(Writer& writer, const JobOrder& order, const Secret& secret);
// Throws WrongFrame.
JobOrder take_order(Reader& reader, std::unique_ptr<Secret>& secret);

// This process's variables that ranks on other hosts should find too. Left out are those that describe this host, this
// session or this user.
std::vector<std::string> environment_for_others();
// Of this process's environment; empty if it is not set.
std::string variable(const char* name);
// As the ranks of the program find it.
std::string variable(const char* name, const Program& program);

// ANELLO_INTERFACES if it is set, or else ANELLO_INTERFACE.
struct WantedInterfaces {
  std::string variable;
  std::string value;
};
WantedInterfaces wanted_interfaces(const Program& program);

}  // namespace anellorun
