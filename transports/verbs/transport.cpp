#include "transports/verbs/transport.h"

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "transports/verbs/endpoint.h"

#include <algorithm>

namespace anello::transport {
namespace {

VerbsSettings environment() { return VerbsSettings::of(Config::get()); }

class VerbsTransport final : public Transport {
 public:
  explicit VerbsTransport(const VerbsSettings& settings) : memory_(VerbsPort::open_all(settings, kMostRails)) {
    for (const std::shared_ptr<VerbsPort>& port : memory_.ports())
      log::info(-1, "verbs over ", port->name(), " (", port->address().text(), ")");
  }

  std::string_view name() const override { return "verbs"; }
  bool needs_connection() const override { return true; }

  std::unique_ptr<Endpoint> open(int peer, int /*local_peer*/, Connections connections) override {
    UniqueFd fd = connections.first();
    if (!fd) throw Error(ANELLO_ERR_INTERNAL, text("no connection to rank ", peer), peer);
    try {
      return std::make_unique<VerbsEndpoint>(peer, memory_, std::move(fd));
    } catch (const Error& error) {
      throw Error(error.code(), text("no lane to rank ", peer, ": ", error.text()), peer);
    }
  }

  RemoteMemory* remote_memory() override { return &memory_; }

 private:
  VerbsRemoteMemory memory_;
};

}  // namespace

std::unique_ptr<Transport> make_verbs(const VerbsSettings& settings) {
  return std::make_unique<VerbsTransport>(settings);
}

std::string verbs_why_not() {
  try {
    VerbsPort::open(environment());
    return {};
  } catch (const Error& why_not) {
    return why_not.text();
  }
}

std::vector<VerbsPortReport> verbs_ports() {
  std::vector<VerbsPortReport> reports;
  try {
    VerbsPort::visit(environment(),
                     [&](const std::string& name, const std::shared_ptr<VerbsPort>& port, const std::string& why_not) {
      reports.push_back({name, port != nullptr ? port->address().text() : "not usable", why_not});
      return true;
    });
  } catch (const Error& error) {
    reports.push_back({"adapters", "none", error.text()});
  }
  return reports;
}

std::string verbs_address() {
  try {
    std::string addresses;
    for (const std::shared_ptr<VerbsPort>& port : VerbsPort::open_all(environment(), kMostRails))
      addresses += port->address().bytes();
    return addresses;
  } catch (const Error& why_not) {
    log::info(-1, "no verbs: ", why_not.text());
    return {};
  }
}

bool verbs_reaches(const Place& a, const Place& b) {
  const std::vector<PortAddress> ones = PortAddress::all_from(a.address), others = PortAddress::all_from(b.address);
  return std::any_of(ones.begin(), ones.end(), [&](const PortAddress& one) {
    return std::any_of(others.begin(), others.end(), [&](const PortAddress& other) { return one.joins(other); });
  });
}

std::string verbs_why_unreached(const Place& a, const Place& b) {
  if (a.address.empty() || b.address.empty())
    return text("verbs needs an RDMA adapter, and ", a.address.empty() ? "one" : "the other",
                " of the two ranks can use none (anello-info there says why)");
  return "verbs needs ports of one kind and subnet, and those of the two ranks differ";
}

}  // namespace anello::transport
