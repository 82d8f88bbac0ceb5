#include "transports/verbs/port.h"

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "transports/verbs/device_filter.h"
#include "transports/verbs/lane_shape.h"
#include "transports/verbs/sent_notes.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <sys/resource.h>

namespace anello::transport {
namespace {

constexpr const char* kAdapters = "/sys/class/infiniband";

bool has_adapters() {
  std::error_code error;
  const std::filesystem::directory_iterator adapters(kAdapters, error);
  return !error && adapters != std::filesystem::directory_iterator();
}

// The list of devices, given back at the end.
struct DeviceList {
  DeviceList() : devices(verbs_library().get_device_list(&count)) {
    if (devices == nullptr) throw system_error("ibv_get_device_list", errno);
  }
  ~DeviceList() { verbs_library().free_device_list(devices); }
  DeviceList(const DeviceList&) = delete;
  DeviceList& operator=(const DeviceList&) = delete;
  int count = 0;
  ibv_device** devices;
};

ibv_port_attr attributes_of(ibv_context* context, int port) {
  ibv_port_attr attributes{};
  const int error =
      verbs_library().query_port(context, std::uint8_t(port), reinterpret_cast<_compat_ibv_port_attr*>(&attributes));
  if (error != 0) throw system_error("ibv_query_port", error);
  return attributes;
}

ibv_device_attr limits_of(ibv_context* context) {
  ibv_device_attr limits{};
  if (const int error = verbs_library().query_device(context, &limits); error != 0)
    throw system_error("ibv_query_device", error);
  return limits;
}

ibv_context* open_device(ibv_device* device) {
  ibv_context* const context = verbs_library().open_device(device);
  if (context == nullptr) {
    throw Error(ANELLO_ERR_SYSTEM,
                text(system_text("ibv_open_device", errno), "; may this user open the files in /dev/infiniband?"));
  }
  return context;
}

}  // namespace

void VerbsPort::visit(const VerbsSettings& settings, const Visitor& visitor) {
  if (!has_adapters()) {
    throw Error(ANELLO_ERR_SYSTEM, text("no RDMA adapter: ", kAdapters, " is missing or empty (no adapter, or its ",
                                        "driver is not loaded)"));
  }
  const DeviceList list;
  if (list.count == 0) {
    throw Error(ANELLO_ERR_SYSTEM,
                "libibverbs knows none of the adapters: their provider is missing (Debian: ibverbs-providers)");
  }
  for (int i = 0; i < list.count; ++i) {
    const std::string device = verbs_library().get_device_name(list.devices[i]);
    int ports = 1;
    for (int number = 1; number <= ports; ++number) {
      const std::string name = text(device, " port ", number);
      std::shared_ptr<VerbsPort> port;
      std::string why_not;
      try {
        port.reset(new VerbsPort(settings, open_device(list.devices[i]), number, name));
        ports = limits_of(port->context_).phys_port_cnt;
        const std::optional<int> place = place_of_device(settings.devices, device, number);
        if (!place) throw Error(ANELLO_ERR_ARGUMENT, "left out by ANELLO_VERBS_DEVICES");
        port->place_ = *place;
        port->look();
      } catch (const Error& error) {
        port = nullptr;
        why_not = error.text();
      }
      if (!visitor(name, port, why_not)) return;
    }
  }
}

VerbsPorts VerbsPort::open_all(const VerbsSettings& settings, std::size_t most) {
  VerbsPorts ports;
  std::string reasons;
  visit(settings, [&](const std::string& name, const std::shared_ptr<VerbsPort>& port, const std::string& why_not) {
    if (port != nullptr) {
      ports.push_back(port);
    } else {
      reasons += text(reasons.empty() ? "" : "; ", name, ": ", why_not);
    }
    return true;
  });
  if (ports.empty()) throw Error(ANELLO_ERR_SYSTEM, reasons);
  std::stable_sort(ports.begin(), ports.end(), [](const auto& a, const auto& b) { return a->place() < b->place(); });
  if (ports.size() > most) ports.resize(most);
  return ports;
}

// A child must not keep the adapter's files open: the queue pairs of a dead rank would live on.
VerbsPort::VerbsPort(const VerbsSettings& settings, ibv_context* context, int number, std::string name)
    : settings_(settings), context_(context), number_(number), name_(std::move(name)), events_(context, number, name_) {
  remember_descriptor(context_->cmd_fd);
  remember_descriptor(context_->async_fd);
}

VerbsPort::~VerbsPort() {
  if (in_forked_child()) return;
  if (domain_ != nullptr) verbs_library().dealloc_pd(domain_);
  forget_descriptor(context_->cmd_fd);
  forget_descriptor(context_->async_fd);
  verbs_library().close_device(context_);
}

void VerbsPort::check_link(const ibv_port_attr& attributes) const {
  if (attributes.state != IBV_PORT_ACTIVE)
    throw Error(ANELLO_ERR_SYSTEM, "the link is not active (look at ibv_devinfo, or rdma link)");
}

bool VerbsPort::refresh() {
  try {
    const ibv_port_attr attributes = attributes_of(context_, number_);
    check_link(attributes);
    if (is_iwarp()) return joiner_->has_address();
    if (attributes.link_layer == IBV_LINK_LAYER_ETHERNET) choose_gid();
    address();  // which must exist
    return true;
  } catch (const Error&) {
    return false;
  }
}

void VerbsPort::look() {
  const ibv_port_attr attributes = attributes_of(context_, number_);
  check_link(attributes);
  const bool over_tcp = context_->device->transport_type == IBV_TRANSPORT_IWARP;
  if (!over_tcp && context_->device->transport_type != IBV_TRANSPORT_IB)
    throw Error(ANELLO_ERR_SYSTEM, "only InfiniBand, RoCE and iWARP are supported");
  const ibv_device_attr limits = limits_of(context_);
  const int requests = over_tcp ? VerbsSentNotes::sends_of(kLaneRequests) : kLaneRequests;
  const int completions = over_tcp ? requests + kLaneRequests : kLaneCompletions;
  if (limits.max_qp_wr < requests || limits.max_cqe < completions || attributes.max_msg_sz < kPieceBytes)
    throw Error(ANELLO_ERR_SYSTEM, text("its queues are too short (", limits.max_qp_wr, " requests, ", limits.max_cqe,
                                        " completions, messages of ", attributes.max_msg_sz, " bytes)"));
  limits_ = {attributes.max_msg_sz, limits.max_mr_size, limits.max_qp_wr, limits.max_qp_init_rd_atom,
             limits.max_qp_rd_atom};
  if (over_tcp) {
    joiner_ = std::make_unique<VerbsJoiner>(context_->device->name, number_, settings_.port_range);
  } else if (attributes.link_layer == IBV_LINK_LAYER_ETHERNET) {
    choose_gid();
  }
  address();  // which must exist
  domain_ = verbs_library().alloc_pd(context_);
  if (domain_ == nullptr) throw system_error("ibv_alloc_pd", errno);
}

// RoCE v2 with an address that packets can be routed to. The table has gaps, which cannot be read.
bool VerbsPort::is_usable_gid(int index) const {
  std::string kind;
  std::getline(
      std::ifstream(text(kAdapters, "/", context_->device->name, "/ports/", number_, "/gid_attrs/types/", index)),
      kind);
  ibv_gid gid{};
  if (kind != "RoCE v2" || verbs_library().query_gid(context_, std::uint8_t(number_), index, &gid) != 0) return false;
  const bool empty = gid.global.subnet_prefix == 0 && gid.global.interface_id == 0;
  const bool link_local = gid.raw[0] == 0xfe && (gid.raw[1] & 0xc0) == 0x80;
  return !empty && !link_local;
}

// IPv4 before IPv6, as most networks route it.
void VerbsPort::choose_gid() {
  if (settings_.gid_index >= 0) {
    gid_index_ = settings_.gid_index;
    return;
  }
  int found = -1;
  const int entries = attributes_of(context_, number_).gid_tbl_len;
  for (int index = 0; index < entries; ++index) {
    if (!is_usable_gid(index)) continue;
    if (found < 0) found = index;
    gid_index_ = index;
    if (address().is_ipv4()) return;
  }
  if (found < 0) {
    throw Error(ANELLO_ERR_SYSTEM,
                "no address for RoCE v2: give its network interface an IP address, or set ANELLO_VERBS_GID_INDEX");
  }
  gid_index_ = found;
}

int VerbsPort::ring_access() const {
  return IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | (is_iwarp() ? IBV_ACCESS_REMOTE_READ : 0);
}

PortAddress VerbsPort::address() const {
  const ibv_port_attr attributes = attributes_of(context_, number_);
  PortAddress address;
  address.link = attributes.link_layer == IBV_LINK_LAYER_ETHERNET ? PortAddress::kEthernet : PortAddress::kInfiniBand;
  address.mtu = std::uint8_t(attributes.active_mtu);
  address.lid = attributes.lid;
  if (is_iwarp()) {
    address.link = PortAddress::kIwarp;
    address.gid = joiner_->address();
    return address;
  }
  ibv_gid gid{};
  const bool known = verbs_library().query_gid(context_, std::uint8_t(number_), gid_index_, &gid) == 0;
  if (!known || (gid.global.subnet_prefix == 0 && gid.global.interface_id == 0)) {
    throw Error(ANELLO_ERR_SYSTEM, text("no address in entry ", gid_index_, " of the port's GID table (show_gids, or ",
                                        kAdapters, "/", context_->device->name, "/ports/", number_, "/gids)"));
  }
  std::memcpy(address.gid.data(), gid.raw, sizeof gid.raw);
  return address;
}

// ---- Memory ----

std::string why_not_made(const char* call, int error_number) {
  const bool too_many = error_number == ENOMEM || error_number == EAGAIN || error_number == ENOSPC;
  return text(system_text(call, error_number),
              too_many ? "; the adapter has no more of them (ibv_devinfo -v: max_qp, max_cq, max_mr), or the control "
                         "group of this process allows no more (rdma.max)"
                       : "");
}

std::string why_not_locked(int error_number, std::size_t bytes) {
  rlimit limit{};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  if (error_number != ENOMEM || limit.rlim_cur == RLIM_INFINITY) return why_not_made("ibv_reg_mr", error_number);
  return text("locking ", bytes / 1024, " KiB more is not allowed: the process may lock ", limit.rlim_cur / 1024,
              " KiB in all. Raise the limit (memlock in /etc/security/limits.conf, LimitMEMLOCK= of a service, ",
              "--ulimit memlock=-1 of a container)");
}

}  // namespace anello::transport
