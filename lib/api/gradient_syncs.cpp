// The C interface of lib/gradient_sync: handles and arguments.
#include "api/device_place.h"
#include "api/call_group.h"
#include "api/tables.h"
#include "base/dtype.h"
#include "base/text.h"
#include "device/space.h"
#include "gradient_sync/gradient_sync.h"
#include "gradient_sync/host_place.h"

#include <anello/gradient_sync.h>

#include <cmath>
#include <cstring>

using namespace anello;
using namespace anello::api;
using gradient_sync::GradientSync;

namespace {

using Syncs = HandleTable<std::shared_ptr<GradientSync>, Counting::of_all>;

Syncs& syncs() {
  static Syncs* const table = new Syncs;  // leaked: calls may come from static destructors
  return *table;
}

std::uintptr_t number(anello_gradient_sync_t sync) { return reinterpret_cast<std::uintptr_t>(sync); }

template <class Body>
anello_result_t with_sync(const char* name, anello_gradient_sync_t sync, Body&& body) noexcept {
  return guard(ANELLO_COMM_NULL, [&]() -> anello_result_t {
    refuse_here();
    refuse_in_group(name);
    const Syncs::Use use(syncs(), number(sync));
    if (!use) {
      throw sync == ANELLO_GRADIENT_SYNC_NULL
          ? Error(ANELLO_ERR_ARGUMENT, text(name, ": the gradient synchronizer is ANELLO_GRADIENT_SYNC_NULL"))
          : Error(ANELLO_ERR_STATE, text(name, ": the gradient synchronizer was destroyed or never existed"));
    }
    body(**use);
    return ANELLO_OK;
  });
}

[[noreturn]] void refuse(const std::string& what) { throw Error(ANELLO_ERR_ARGUMENT, what); }

void check_tensor(const anello_tensor_t& tensor, std::size_t i) {
  if (tensor.size != sizeof tensor) {
    refuse(text("anello_tensor_t.size of tensor ", i, " is ", tensor.size, ", not ", sizeof tensor,
                "; begin with ANELLO_TENSOR_INITIALIZER"));
  }
  if (anello_dtype_size(tensor.dtype) == 0)
    throw Error(ANELLO_ERR_TYPE, text("tensor ", i, " has the unknown type ", int(tensor.dtype)));
  if (tensor.count > SIZE_MAX / 2 / anello_dtype_size(tensor.dtype))
    refuse(text("tensor ", i, " has ", tensor.count, " elements"));
}

void check_config(const anello_gradient_sync_config_t& config) {
  if (config.bucket_bytes == 0 || config.first_bucket_bytes == 0)
    refuse("bucket_bytes and first_bucket_bytes must be at least 1");
  if (config.op != ANELLO_AVG && config.op != ANELLO_SUM && config.op != ANELLO_MIN && config.op != ANELLO_MAX) {
    throw Error(ANELLO_ERR_TYPE,
                text("op is ", anello_op_name(config.op), "; gradients are combined by avg, sum, min or max"));
  }
  if (config.wire != ANELLO_FLOAT32 && config.wire != ANELLO_FLOAT16 && config.wire != ANELLO_BFLOAT16) {
    throw Error(ANELLO_ERR_TYPE,
                text("wire is ", anello_dtype_name(config.wire), "; gradients travel as float32, float16 or bfloat16"));
  }
  if (!std::isfinite(config.prescale) || !std::isfinite(config.postscale))
    refuse("prescale and postscale must be finite");
  if (!std::isfinite(config.loss_scale) || config.loss_scale < 0) refuse(text("loss_scale is ", config.loss_scale));
  if (config.loss_scale > 0 && config.loss_scale_interval < 1)
    refuse(text("loss_scale_interval is ", config.loss_scale_interval));
  if (config.error_feedback != 0 && config.wire == ANELLO_FLOAT32)
    refuse("error_feedback needs a wire type of 16 bits: nothing else is rounded");
  if (config.average_over_active != 0 && (config.uneven == 0 || config.op != ANELLO_AVG))
    refuse("average_over_active needs uneven and ANELLO_AVG");
  if (config.static_graph != 0 && config.find_unused != 0)
    refuse("static_graph finds unused parameters itself; find_unused must be 0");
  if (config.timeout_ms < 0) refuse(text("timeout_ms is ", config.timeout_ms));
  if (config.device < -1) refuse(text("device is ", config.device, "; it is -1 or a device's number"));
}

class CheckedHostPlace final : public gradient_sync::HostPlace {
 public:
  void check(const void* address, std::size_t bytes, const std::string& what) override {
    if (bytes > 0 && device::is_on_device(address))
      refuse(what + " lies in a device's memory, and the config's device is -1");
  }
};

std::unique_ptr<gradient_sync::Place> place_of(const anello_gradient_sync_config_t& config) {
  if (config.device < 0) return std::make_unique<CheckedHostPlace>();
  const bool only_copies = config.prescale == 1 && config.postscale == 1 && config.wire == ANELLO_FLOAT32 &&
                           config.check_overflow == 0 && config.loss_scale == 0 && config.average_over_active == 0;
  try {
    return std::make_unique<DevicePlace>(config.device, !only_copies);
  } catch (const Error& error) {
    throw Error(error.code(), text("gradients on device ", config.device, ": ", error.text()));
  }
}

GradientSync::Setup read_setup(const anello_tensor_t* parameters, std::size_t count,
                               const anello_gradient_sync_config_t* config) {
  GradientSync::Setup setup{{}, ANELLO_GRADIENT_SYNC_CONFIG_INITIALIZER, nullptr};
  if (config != nullptr) {
    if (config->size != sizeof *config) {
      refuse(text("anello_gradient_sync_config_t.size is ", config->size, ", not ", sizeof *config,
                  "; begin with ANELLO_GRADIENT_SYNC_CONFIG_INITIALIZER"));
    }
    setup.config = *config;
  }
  check_config(setup.config);
  setup.place = place_of(setup.config);
  if (parameters == nullptr && count > 0) refuse("parameters is NULL");
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const anello_tensor_t& one = parameters[i];
    check_tensor(one, i);
    // Leaves room for the padding of each, so that no sum of sizes wraps.
    if (__builtin_add_overflow(bytes, one.count * anello_dtype_size(one.dtype) + 4096, &bytes) ||
        bytes > SIZE_MAX / 4) {
      refuse(text("the gradients up to that of parameter ", i, " have more bytes than there are addresses"));
    }
    const unsigned kind = class_of(one.dtype);
    const std::string name = one.name != nullptr ? one.name : text('#', i);
    const bool has_kernels = one.dtype == ANELLO_FLOAT32 || one.dtype == ANELLO_FLOAT64 ||
                             one.dtype == ANELLO_FLOAT16 || one.dtype == ANELLO_BFLOAT16 || kind == kComplex;
    if (!has_kernels) {
      throw Error(ANELLO_ERR_TYPE,
                  text("parameter ", i, " (", name, ") is of ", anello_dtype_name(one.dtype),
                       "; gradients are float32, float64, float16, bfloat16, complex64 or complex128"));
    }
    if (kind == kComplex && (setup.config.op == ANELLO_MIN || setup.config.op == ANELLO_MAX)) {
      throw Error(ANELLO_ERR_TYPE,
                  text("parameter ", i, " (", name, ") is complex, and op is ", anello_op_name(setup.config.op)));
    }
    setup.parameters.emplace_back(name, setup.config.views != 0 ? nullptr : one.data, one.count, one.dtype);
  }
  return setup;
}

template <class Struct>
void check_size(const char* name, const Struct* given) {
  if (given == nullptr) refuse(text(name, " is NULL"));
  if (given->size != sizeof *given)
    refuse(text(name, ".size is ", given->size, ", not ", sizeof *given, "; begin with its initializer"));
}

}  // namespace

extern "C" {

anello_result_t anello_gradient_sync_create(anello_comm_t comm, const anello_tensor_t* parameters, size_t count,
                                            const anello_gradient_sync_config_t* config, anello_gradient_sync_t* sync) {
  return guard(ANELLO_COMM_NULL, [&] {
    refuse_here();
    refuse_in_group("anello_gradient_sync_create");
    std::shared_ptr<GradientSync> made = GradientSync::create(comm, [&] {
      if (sync == nullptr) refuse("sync is NULL");
      return read_setup(parameters, count, config);
    });
    *sync = reinterpret_cast<anello_gradient_sync_t>(syncs().add(std::move(made)));
    return ANELLO_OK;
  });
}

anello_result_t anello_gradient_sync_destroy(anello_gradient_sync_t sync) {
  return guard(ANELLO_COMM_NULL, [&] {
    refuse_here();
    refuse_in_group("anello_gradient_sync_destroy");
    if (sync == ANELLO_GRADIENT_SYNC_NULL) return ANELLO_OK;
    if (!syncs().remove(number(sync), [](const std::shared_ptr<GradientSync>&) {})) {
      throw Error(ANELLO_ERR_STATE, "the gradient synchronizer was destroyed before or never existed");
    }
    return ANELLO_OK;
  });
}

anello_result_t anello_gradient_sync_broadcast(anello_gradient_sync_t sync, const anello_tensor_t* tensors,
                                               size_t count, int root) {
  return with_sync("anello_gradient_sync_broadcast", sync, [&](GradientSync& it) {
    it.broadcast(count, root, [&](std::size_t i) -> const anello_tensor_t& {
      if (tensors == nullptr) refuse("tensors is NULL");
      check_tensor(tensors[i], i);
      if (tensors[i].data == nullptr && tensors[i].count > 0) refuse(text("the data of tensor ", i, " is NULL"));
      return tensors[i];
    });
  });
}

anello_result_t anello_gradient_sync_begin(anello_gradient_sync_t sync, unsigned flags) {
  return with_sync("anello_gradient_sync_begin", sync, [&](GradientSync& it) { it.begin(flags); });
}

anello_result_t anello_gradient_sync_ready(anello_gradient_sync_t sync, size_t i, void* gradient) {
  return with_sync("anello_gradient_sync_ready", sync, [&](GradientSync& it) { it.ready(i, gradient, nullptr); });
}

anello_result_t anello_gradient_sync_ready_on(anello_gradient_sync_t sync, size_t i, void* gradient, void* stream) {
  return with_sync("anello_gradient_sync_ready_on", sync, [&](GradientSync& it) { it.ready(i, gradient, stream); });
}

anello_result_t anello_gradient_sync_unused(anello_gradient_sync_t sync, size_t i) {
  return with_sync("anello_gradient_sync_unused", sync, [&](GradientSync& it) { it.unused(i); });
}

anello_result_t anello_gradient_sync_flush(anello_gradient_sync_t sync) {
  return with_sync("anello_gradient_sync_flush", sync, [&](GradientSync& it) { it.flush(); });
}

anello_result_t anello_gradient_sync_wait(anello_gradient_sync_t sync) {
  return with_sync("anello_gradient_sync_wait", sync, [&](GradientSync& it) { it.wait(); });
}

anello_result_t anello_gradient_sync_wait_on(anello_gradient_sync_t sync, void* stream) {
  return with_sync("anello_gradient_sync_wait_on", sync, [&](GradientSync& it) { it.wait_on(stream); });
}

anello_result_t anello_gradient_sync_test(anello_gradient_sync_t sync, int* done) {
  return with_sync("anello_gradient_sync_test", sync, [&](GradientSync& it) {
    if (done == nullptr) refuse("anello_gradient_sync_test: done is NULL");
    *done = it.test() ? 1 : 0;
  });
}

anello_result_t anello_gradient_sync_result(anello_gradient_sync_t sync, size_t i, const void** data, int* used) {
  return with_sync("anello_gradient_sync_result", sync, [&](GradientSync& it) {
    const void* const found = it.result(i, used);
    if (data != nullptr) *data = found;
  });
}

anello_result_t anello_gradient_sync_view(anello_gradient_sync_t sync, size_t i, void** gradient) {
  return with_sync("anello_gradient_sync_view", sync, [&](GradientSync& it) {
    if (gradient == nullptr) refuse("anello_gradient_sync_view: gradient is NULL");
    *gradient = it.view(i);
  });
}

anello_result_t anello_gradient_sync_overflow(anello_gradient_sync_t sync, int* found) {
  return with_sync("anello_gradient_sync_overflow", sync, [&](GradientSync& it) {
    if (found == nullptr) refuse("anello_gradient_sync_overflow: found is NULL");
    *found = it.overflow() ? 1 : 0;
  });
}

anello_result_t anello_gradient_sync_loss_scale(anello_gradient_sync_t sync, double* scale) {
  return with_sync("anello_gradient_sync_loss_scale", sync, [&](GradientSync& it) {
    if (scale == nullptr) refuse("anello_gradient_sync_loss_scale: scale is NULL");
    *scale = it.loss_scale();
  });
}

anello_result_t anello_gradient_sync_join(anello_gradient_sync_t sync, int* last_rank) {
  return with_sync("anello_gradient_sync_join", sync, [&](GradientSync& it) {
    const int last = it.join();
    if (last_rank != nullptr) *last_rank = last;
  });
}

anello_result_t anello_gradient_sync_bucket_count(anello_gradient_sync_t sync, size_t* count) {
  return with_sync("anello_gradient_sync_bucket_count", sync, [&](GradientSync& it) {
    if (count == nullptr) refuse("anello_gradient_sync_bucket_count: count is NULL");
    *count = it.bucket_count();
  });
}

anello_result_t anello_gradient_sync_bucket(anello_gradient_sync_t sync, size_t index, anello_bucket_t* bucket) {
  return with_sync("anello_gradient_sync_bucket", sync, [&](GradientSync& it) {
    check_size("anello_bucket_t", bucket);
    *bucket = it.bucket(index);
  });
}

anello_result_t anello_gradient_sync_set_hook(anello_gradient_sync_t sync, const anello_bucket_hook_t* hook) {
  return with_sync("anello_gradient_sync_set_hook", sync, [&](GradientSync& it) {
    if (hook != nullptr) check_size("anello_bucket_hook_t", hook);
    if (hook != nullptr && hook->start == nullptr) refuse("anello_bucket_hook_t.start is NULL");
    it.set_hook(hook);
  });
}

anello_result_t anello_gradient_sync_query(anello_gradient_sync_t sync, anello_gradient_sync_statistics_t* statistics) {
  return with_sync("anello_gradient_sync_query", sync, [&](GradientSync& it) {
    check_size("anello_gradient_sync_statistics_t", statistics);
    it.statistics(*statistics);
  });
}

anello_result_t anello_gradient_sync_summary(anello_gradient_sync_t sync, char* text, size_t capacity) {
  return with_sync("anello_gradient_sync_summary", sync, [&](GradientSync& it) {
    if (text == nullptr || capacity == 0) refuse("anello_gradient_sync_summary: there is no room for its text");
    const std::string line = it.summary();
    const std::size_t bytes = std::min(line.size(), capacity - 1);
    std::memcpy(text, line.data(), bytes);
    text[bytes] = 0;
  });
}

}  // extern "C"
