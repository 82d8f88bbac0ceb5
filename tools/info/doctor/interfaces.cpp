#include "info/doctor/checks.h"

#include "base/config.h"
#include "base/interface_filter.h"
#include "base/network_interfaces.h"

#include <set>
#include <string>

namespace info::doctor {

Finding interfaces() {
  const char* const kName = "interfaces";
  const std::string& wish = anello::Config::get().interface;
  const std::string variable = anello::Config::get().interfaces.empty() ? "ANELLO_INTERFACE" : "ANELLO_INTERFACES";
  const anello::InterfaceFilter wanted(wish);
  std::string all, bridges, chosen;
  std::set<std::string> names;
  for (const anello::NetworkInterface& each : anello::network_interfaces()) {
    const std::string shown = each.name + " " + each.ip;
    if (wanted.matches(each.name, each.ip)) chosen += (chosen.empty() ? "" : ", ") + shown;
    if (!each.up || anello::is_loopback(each.ip) || each.has_scope()) continue;
    if (!each.is_bridge_of_engine()) names.insert(each.name);
    std::string& list = each.is_bridge_of_engine() ? bridges : all;
    list += (list.empty() ? "" : ", ") + shown;
  }
  if (!wish.empty() && chosen.empty()) {
    return problem(kName, variable + "=" + wish + " means none of " + (all.empty() ? "them" : all),
                   "Jobs over several hosts fail when they create their first communicator.",
                   "unset " + variable + "        or name one of those that ip -br addr shows");
  }
  if (!wish.empty()) return ok(kName, chosen + " (" + variable + "=" + wish + ")");
  if (all.empty() && bridges.empty()) {
    return warning(kName, "only the loopback", "Jobs on this host work; other hosts cannot reach its ranks.",
                   "ip -br addr        shows interfaces that are down; sudo ip link set NAME up");
  }
  if (all.empty()) {
    return warning(kName, "only the loopback and " + bridges,
                   "A container engine's bridge has the same address on every host: ranks on other hosts are not "
                   "reached there.",
                   "ip -br addr        shows interfaces that are down; sudo ip link set NAME up");
  }
  if (names.size() > 1)
    all +=
        " (the one that leads to the meeting place is used; ANELLO_INTERFACE=NAME chooses another, "
        "ANELLO_INTERFACES=NAME,NAME uses several)";
  return ok(kName, all + (bridges.empty() ? "" : "; not used: " + bridges));
}

}  // namespace info::doctor
