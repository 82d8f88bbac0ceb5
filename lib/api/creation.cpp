// Creation, destruction and properties of communicators.
#include "api/call_group.h"
#include "api/making.h"
#include "base/text.h"
#include "bootstrap/join.h"

#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace anello::api {

Communicators& communicators() {
  static Communicators* const table = new Communicators;  // leaked: calls may come from static destructors
  return *table;
}

Requests& requests() {
  static Requests* const table = new Requests;
  return *table;
}

anello_comm_t publish(std::shared_ptr<Communicator> communicator) {
  if (communicator == nullptr) return ANELLO_COMM_NULL;
  return reinterpret_cast<anello_comm_t>(communicators().add(std::move(communicator)));
}

namespace {

// The caller's struct over the defaults: a caller built against an older header knows fewer fields.
anello_config_t complete(const anello_config_t* config) {
  anello_config_t whole = ANELLO_CONFIG_INITIALIZER;
  if (config == nullptr) return whole;
  if (config->size < offsetof(anello_config_t, url) || config->size > sizeof whole) {
    throw Error(ANELLO_ERR_ARGUMENT, text("anello_config_t.size is ", config->size, ", this library knows ",
                                          sizeof whole, ": start from ANELLO_CONFIG_INITIALIZER"));
  }
  std::memcpy(&whole, config, config->size);
  whole.size = sizeof whole;
  if (whole.timeout_ms < 0) throw Error(ANELLO_ERR_ARGUMENT, text("timeout_ms ", whole.timeout_ms, " is negative"));
  if ((whole.rank < 0) != (whole.world_size < 0)) {
    throw Error(ANELLO_ERR_ARGUMENT, "rank and world_size must both be given, or both be -1");
  }
  if (whole.world_size == 0 || (whole.rank >= 0 && whole.rank >= whole.world_size)) {
    throw Error(ANELLO_ERR_ARGUMENT, text("rank ", whole.rank, " is not below world_size ", whole.world_size));
  }
  return whole;
}

// Copies of the data that a config points to, for a thread that reads it later.
class KeptConfig {
 public:
  explicit KeptConfig(const anello_config_t& config) : config_(config) {
    keep(config_.url, url_);
    keep(config_.transports, transports_);
    if (config_.unique_id != nullptr) id_ = *config_.unique_id;
    if (config_.store != nullptr) store_ = *config_.store;
  }
  anello_config_t get() const {
    anello_config_t config = config_;
    if (config.url != nullptr) config.url = url_.c_str();
    if (config.transports != nullptr) config.transports = transports_.c_str();
    if (config.unique_id != nullptr) config.unique_id = &id_;
    if (config.store != nullptr) config.store = &store_;
    return config;
  }

 private:
  static void keep(const char* from, std::string& into) {
    if (from != nullptr) into = from;
  }
  anello_config_t config_;
  std::string url_, transports_;
  anello_unique_id_t id_{};
  anello_store_t store_{};
};

void require(const void* pointer, const char* name) {
  if (pointer == nullptr) throw Error(ANELLO_ERR_ARGUMENT, text(name, " is NULL"));
}

}  // namespace
}  // namespace anello::api

using namespace anello;
using namespace anello::api;

extern "C" {

const char anello_in_place_marker = 0;

anello_result_t anello_unique_id_create(anello_unique_id_t* id) {
  return guard(ANELLO_COMM_NULL, [&] {
    refuse_here();
    require(id, "id");
    *id = bootstrap::make_unique_id();
    return ANELLO_OK;
  });
}

anello_result_t anello_comm_create(const anello_config_t* config, anello_comm_t* comm) {
  return guard(ANELLO_COMM_NULL, [&] {
    refuse_here();
    require(comm, "comm");
    if (CallGroup* const group = CallGroup::current()) {
      anello_request_t request = ANELLO_REQUEST_NULL;
      const anello_result_t result = anello_comm_icreate(config, comm, &request);
      if (result == ANELLO_OK) group->add(request, nullptr);
      return result;
    }
    *comm = publish(Communicator::create(complete(config)));
    return ANELLO_OK;
  });
}

anello_result_t anello_comm_icreate(const anello_config_t* config, anello_comm_t* comm, anello_request_t* request) {
  return guard(ANELLO_COMM_NULL, [&] {
    refuse_here();
    require(comm, "comm");
    require(request, "request");
    const KeptConfig kept(complete(config));
    Pending pending;
    pending.making = make_in_background([kept] { return Communicator::create(kept.get()); }, comm);
    *request = request_of(std::move(pending));
    return ANELLO_OK;
  });
}

anello_result_t anello_comm_create_all(int count, anello_comm_t* comms) {
  return guard(ANELLO_COMM_NULL, [&] {
    refuse_here();
    require(comms, "comms");
    if (count < 1) throw Error(ANELLO_ERR_ARGUMENT, text("count ", count, " is below 1"));
    const anello_unique_id_t id = bootstrap::make_unique_id(true);
    std::vector<std::shared_ptr<Communicator>> made(static_cast<std::size_t>(count));
    std::vector<Error> errors(static_cast<std::size_t>(count));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < count; ++rank) {
      threads.emplace_back([&, rank] {
        const auto at = static_cast<std::size_t>(rank);
        try {
          anello_config_t config = ANELLO_CONFIG_INITIALIZER;
          config.rank = rank;
          config.world_size = count;
          config.unique_id = &id;
          made[at] = Communicator::create(config);
        } catch (const Error& error) {
          errors[at] = error;
        } catch (const std::exception& error) {
          errors[at] = Error(ANELLO_ERR_INTERNAL, error.what());
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const Error& error : errors) {
      if (error) throw error;
    }
    for (int rank = 0; rank < count; ++rank) comms[rank] = publish(std::move(made[static_cast<std::size_t>(rank)]));
    return ANELLO_OK;
  });
}

anello_result_t anello_comm_destroy(anello_comm_t comm) {
  return guard(comm, [&] {
    refuse_here();
    if (comm == ANELLO_COMM_NULL) return ANELLO_OK;
    Error first;
    const auto gone = communicators().remove(
        number(comm), [&](const std::shared_ptr<Communicator>& communicator) { first = communicator->destroy(); });
    if (!gone) throw Error(ANELLO_ERR_STATE, "the communicator was destroyed before or never existed");
    if (first) throw first;
    return ANELLO_OK;
  });
}

anello_result_t anello_comm_abort(anello_comm_t comm, const char* reason) {
  return with(comm, [&](const std::shared_ptr<Communicator>& communicator) {
    communicator->abort(reason == nullptr ? "" : std::string(reason, strnlen(reason, 1024)));
    return ANELLO_OK;
  });
}

anello_result_t anello_comm_rank(anello_comm_t comm, int* rank) {
  return with(comm, [&](const std::shared_ptr<Communicator>& communicator) {
    require(rank, "rank");
    *rank = communicator->rank();
    return ANELLO_OK;
  });
}

anello_result_t anello_comm_size(anello_comm_t comm, int* size) {
  return with(comm, [&](const std::shared_ptr<Communicator>& communicator) {
    require(size, "size");
    *size = communicator->size();
    return ANELLO_OK;
  });
}

anello_result_t anello_comm_local_rank(anello_comm_t comm, int* local_rank) {
  return with(comm, [&](const std::shared_ptr<Communicator>& communicator) {
    require(local_rank, "local_rank");
    *local_rank = communicator->local_rank();
    return ANELLO_OK;
  });
}

anello_result_t anello_comm_local_size(anello_comm_t comm, int* local_size) {
  return with(comm, [&](const std::shared_ptr<Communicator>& communicator) {
    require(local_size, "local_size");
    *local_size = communicator->local_size();
    return ANELLO_OK;
  });
}

anello_result_t anello_comm_transport(anello_comm_t comm, int peer, const char** name) {
  return with(comm, [&](const std::shared_ptr<Communicator>& communicator) {
    require(name, "name");
    if (peer < 0 || peer >= communicator->size()) {
      throw Error(ANELLO_ERR_ARGUMENT, text("peer ", peer, " is not a rank of this communicator"));
    }
    *name = communicator->transport_to(peer);
    return ANELLO_OK;
  });
}

}  // extern "C"
