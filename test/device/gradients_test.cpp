// The gradient synchronizer on a device: the bits of the host's, in the order of streams.
#include "in_stream.h"

#include <anello/gradient_sync.h>

#include "support/catch.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

using namespace anello::test;

namespace {

const std::vector<std::size_t>& counts() {
  static const std::vector<std::size_t> all = {1000, 3, 30000, 0, 513, 1};
  return all;
}

// Sums of such numbers depend on their order, and products are rounded.
float value_of(int rank, std::size_t parameter, std::size_t element, int step) {
  return std::sin(float(parameter * 31 + element * 7 + std::size_t(rank) * 13 + std::size_t(step) * 5)) * 3;
}

anello_gradient_sync_config_t small_buckets(int device) {
  anello_gradient_sync_config_t config = ANELLO_GRADIENT_SYNC_CONFIG_INITIALIZER;
  config.first_bucket_bytes = 2048;
  config.bucket_bytes = 16 * 1024;
  config.device = device;
  return config;
}

// One rank's gradients, in host memory or on the device.
class Gradients {
 public:
  Gradients(const Rank& me, const anello_gradient_sync_config_t& config)
      : me_(me), on_device_(config.device >= 0), views_(config.views != 0) {
    std::vector<anello_tensor_t> tensors;
    for (std::size_t i = 0; i < counts().size(); ++i) {
      if (on_device_) {
        device_.push_back(std::make_unique<OnDevice>(counts()[i] + 1));
        sources_.push_back(std::make_unique<OnDevice>(counts()[i] + 1));
      }
      host_.emplace_back(counts()[i] + 1);
      void* const at = on_device_ ? static_cast<void*>(device_[i]->data()) : host_[i].data();
      tensors.push_back({sizeof(anello_tensor_t), nullptr, at, counts()[i], ANELLO_FLOAT32});
    }
    ok(anello_gradient_sync_create(me.comm, tensors.data(), tensors.size(), &config, &sync), "create");
  }
  ~Gradients() { ok(anello_gradient_sync_destroy(sync), "destroy"); }
  Gradients(const Gradients&) = delete;
  Gradients& operator=(const Gradients&) = delete;

  void ok(anello_result_t result, const std::string& what) const {
    if (result != ANELLO_OK) me_.report.wrong("rank ", me_.rank, ", ", what, ": ", anello_last_error(ANELLO_COMM_NULL));
  }
  float* at(std::size_t i) {
    void* view = nullptr;
    if (views_) ok(anello_gradient_sync_view(sync, i, &view), "view");
    return views_ ? static_cast<float*>(view) : on_device_ ? device_[i]->data() : host_[i].data();
  }
  // In the stream, behind what is there. The last step has been waited for.
  void compute(std::size_t i, const std::vector<float>& values, void* stream) {
    if (counts()[i] == 0) return;
    if (!on_device_) {
      std::memcpy(at(i), values.data(), 4 * counts()[i]);
      return;
    }
    copy_to_device(sources_[i]->data(), values.data(), 4 * counts()[i]);
    copy_on_device(at(i), sources_[i]->data(), 4 * counts()[i], stream);
  }
  std::vector<float> content(std::size_t i) {
    std::vector<float> values(counts()[i]);
    if (values.empty()) return values;
    const void* result = at(i);
    int used = 0;
    ok(anello_gradient_sync_result(sync, i, &result, &used), "result");
    if (on_device_) {
      copy_to_host(values.data(), result, 4 * values.size());
    } else {
      std::memcpy(values.data(), result, 4 * values.size());
    }
    return values;
  }
  bool overflow() const {
    int found = -1;
    ok(anello_gradient_sync_overflow(sync, &found), "overflow");
    return found == 1;
  }
  anello_gradient_sync_t sync = ANELLO_GRADIENT_SYNC_NULL;

 private:
  const Rank& me_;
  const bool on_device_, views_;
  // Allocated before and freed after all steps: to free memory waits for streams, which wait for ranks of this process.
  std::vector<std::unique_ptr<OnDevice>> device_, sources_;
  std::vector<std::vector<float>> host_;
};

using Missing = std::function<bool(int rank, std::size_t i, int step)>;

// A few steps of the same gradients, whose results must be equal.
void compare(
    const Rank& me, anello_gradient_sync_config_t config, const std::string& what,
    const Missing& is_missing = [](int, std::size_t, int) { return false; }) {
  const Stream backward, optimizer;
  config.device = -1;
  Gradients host(me, config);
  config.device = 0;
  Gradients device(me, config);
  for (int step = 0; step < 4; ++step) {
    host.ok(anello_gradient_sync_begin(host.sync, 0), "begin");
    device.ok(anello_gradient_sync_begin(device.sync, 0), "begin");
    for (std::size_t i = counts().size(); i-- > 0;) {
      if (is_missing(me.rank, i, step)) continue;
      std::vector<float> values(counts()[i]);
      for (std::size_t e = 0; e < values.size(); ++e) values[e] = value_of(me.rank, i, e, step);
      if (step == 2 && me.rank == 1 && i == 2 && config.check_overflow != 0) values[29999] = INFINITY;
      host.compute(i, values, nullptr);
      host.ok(anello_gradient_sync_ready(host.sync, i, nullptr), "ready");
      device.compute(i, values, backward);
      device.ok(anello_gradient_sync_ready_on(device.sync, i, nullptr, backward), "ready_on");
    }
    host.ok(anello_gradient_sync_wait(host.sync), "wait");
    device.ok(anello_gradient_sync_wait_on(device.sync, optimizer), "wait_on");
    optimizer.wait();
    for (std::size_t i = 0; i < counts().size(); ++i) {
      if (host.content(i) != device.content(i))
        me.report.wrong("rank ", me.rank, ", ", what, ", step ", step, ": the gradient of ", i, " differs");
    }
    if (config.check_overflow != 0 && (host.overflow() != (step == 2) || device.overflow() != (step == 2)))
      me.report.wrong("rank ", me.rank, ", ", what, ", step ", step, ": overflow");
  }
}

}  // namespace

TEST_CASE("gradients on a device have the host's bits, whatever the options") {
  for (const char* const transport : {"inproc", "shm", "tcp"}) {
    INFO(transport);
    CHECK(run_ranks(3, transport, [](const Rank& me) {
            anello_gradient_sync_config_t config = small_buckets(0);
            compare(me, config, "averages");
            config.views = 1;
            compare(me, config, "views");
            config.rebuild = 0;
            config.prescale = 0.3;
            compare(me, config, "scaled views");
            config.wire = ANELLO_BFLOAT16;
            compare(me, config, "views and bfloat16");
            config = small_buckets(0);
            config.op = ANELLO_SUM;
            config.postscale = 1.0 / 7;
            config.wire = ANELLO_FLOAT16;
            config.error_feedback = 1;
            compare(me, config, "float16 with error feedback");
            config = small_buckets(0);
            config.check_overflow = 1;
            config.delay = 1;
            compare(me, config, "overflow");
          }) == "");
  }
}

TEST_CASE("gradients on a device that ranks lack are found as on the host") {
  CHECK(run_ranks(2, "shm", [](const Rank& me) {
          anello_gradient_sync_config_t config = small_buckets(0);
          config.find_unused = 1;
          const Missing some = [](int rank, std::size_t i, int step) { return i == 4 || (i == 2 && rank == step % 2); };
          compare(me, config, "unused", some);
          config.views = 1;
          compare(me, config, "unused views", some);
          config = small_buckets(0);
          config.static_graph = 1;
          compare(me, config, "a static graph",
                  [](int rank, std::size_t i, int) { return i == 1 || (i == 4 && rank == 0); });
          config = small_buckets(0);
          config.loss_scale = 1024;
          config.check_overflow = 1;
          compare(me, config, "loss scale");
        }) == "");
}

TEST_CASE("neither ready_on nor wait_on waits for the device, and streams keep the order", "[fake]") {
  CHECK(run_ranks(2, "shm", [](const Rank& me) {
          static std::atomic<int> enqueued, held;
          if (me.rank == 0) enqueued = held = 0;
          const Stream backward, optimizer;
          anello_gradient_sync_config_t config = small_buckets(0);
          config.rebuild = 0;  // which waits, in the second step
          Gradients mine(me, config);
          const OnDevice result(30000);
          for (int step = 0; step < 3; ++step) {
            me.ok(anello_barrier(me.comm), "barrier");
            if (me.rank == 0) hold_device(true);
            if (me.rank == 0) ++held;
            reaches(me, held, step + 1);
            mine.ok(anello_gradient_sync_begin(mine.sync, 0), "begin");
            for (std::size_t i = counts().size(); i-- > 0;) {
              // Of memory that is there: to fill it would wait for the device.
              if (i == 2) copy_on_device(mine.at(2), mine.at(2), 4, backward);
              mine.ok(anello_gradient_sync_ready_on(mine.sync, i, nullptr, backward), "ready_on");
            }
            mine.ok(anello_gradient_sync_wait_on(mine.sync, optimizer), "wait_on");
            copy_on_device(result.data(), mine.at(2), 4 * 30000, optimizer);
            ++enqueued;
            reaches(me, enqueued, 2 * (step + 1));
            if (is_idle(optimizer)) me.report.wrong("rank ", me.rank, ": the stream did not wait");
            me.ok(anello_barrier(me.comm), "barrier");
            if (me.rank == 0) hold_device(false);
            optimizer.wait();
            is(me, result.at(29999), 0, "the average of zeros");
          }
        }) == "");
  hold_device(false);
}

TEST_CASE("a step's first copies wait until the last step's results have been copied, whatever the streams") {
  CHECK(run_ranks(2, "shm", [](const Rank& me) {
          constexpr std::size_t kLarge = 2'000'000;
          const Stream backward, optimizer;
          anello_gradient_sync_config_t config = small_buckets(0);
          config.rebuild = 0;
          Gradients mine(me, config);
          const OnDevice large(kLarge), other(kLarge), later(30000, 100), kept(30000);
          mine.compute(2, std::vector<float>(30000, float(me.rank)), backward);
          for (const bool is_later : {false, true}) {
            mine.ok(anello_gradient_sync_begin(mine.sync, 0), "begin");
            for (std::size_t i = counts().size(); i-- > 0;) {
              float* const at = is_later && i == 2 ? later.data() : nullptr;
              mine.ok(anello_gradient_sync_ready_on(mine.sync, i, at, backward), "ready_on");
            }
            // The optimizer is late, and nothing else tells the backward pass so.
            for (int i = 0; !is_later && i < 30; ++i) copy_on_device(large.data(), other.data(), 4 * kLarge, optimizer);
            mine.ok(anello_gradient_sync_wait_on(mine.sync, optimizer), "wait_on");
            if (!is_later) copy_on_device(kept.data(), mine.at(2), 4 * 30000, optimizer);
          }
          optimizer.wait();
          is(me, kept.at(0), 0.5, "the first of the first step");
          is(me, kept.at(29999), 0.5, "the last of the first step");
          is(me, later.at(29999), 100, "the second step");
        }) == "");
}

TEST_CASE("gradients of every type are scaled on a device") {
  CHECK(run_ranks(2, "shm", [](const Rank& me) {
          struct Typed {
            anello_dtype_t dtype;
            std::vector<unsigned char> one, quarter;  // an element, and a quarter of it
          };
          const auto bytes = [](auto... parts) {
            std::vector<unsigned char> all;
            const auto add = [&](const auto& part) {
              const auto* const at = reinterpret_cast<const unsigned char*>(&part);
              all.insert(all.end(), at, at + sizeof part);
            };
            (add(parts), ...);
            return all;
          };
          const Typed all[] = {{ANELLO_FLOAT32, bytes(4.0f), bytes(1.0f)},
                               {ANELLO_FLOAT64, bytes(8.0), bytes(2.0)},
                               {ANELLO_FLOAT16, bytes(std::uint16_t{0x4000}), bytes(std::uint16_t{0x3800})},
                               {ANELLO_BFLOAT16, bytes(std::uint16_t{0x4000}), bytes(std::uint16_t{0x3f00})},
                               {ANELLO_COMPLEX64, bytes(4.0f, -8.0f), bytes(1.0f, -2.0f)},
                               {ANELLO_COMPLEX128, bytes(4.0, -8.0), bytes(1.0, -2.0)}};
          constexpr std::size_t kCount = 33;
          std::vector<std::unique_ptr<OnDevice>> memory;
          std::vector<anello_tensor_t> tensors;
          for (const Typed& each : all) {
            memory.push_back(std::make_unique<OnDevice>(kCount * 4));
            for (std::size_t e = 0; e < kCount; ++e)
              copy_to_device(reinterpret_cast<char*>(memory.back()->data()) + e * each.one.size(), each.one.data(),
                             each.one.size());
            tensors.push_back({sizeof(anello_tensor_t), nullptr, memory.back()->data(), kCount, each.dtype});
          }
          anello_gradient_sync_config_t config = small_buckets(0);
          config.prescale = config.postscale = 0.5;
          anello_gradient_sync_t sync = ANELLO_GRADIENT_SYNC_NULL;
          me.ok(anello_gradient_sync_create(me.comm, tensors.data(), tensors.size(), &config, &sync), "create");
          me.ok(anello_gradient_sync_begin(sync, 0), "begin");
          for (std::size_t i = 0; i < tensors.size(); ++i) me.ok(anello_gradient_sync_ready(sync, i, nullptr), "ready");
          me.ok(anello_gradient_sync_wait(sync), "wait");
          for (std::size_t i = 0; i < tensors.size(); ++i) {
            std::vector<unsigned char> got(all[i].one.size() * kCount), wanted;
            for (std::size_t e = 0; e < kCount; ++e)
              wanted.insert(wanted.end(), all[i].quarter.begin(), all[i].quarter.end());
            copy_to_host(got.data(), memory[i]->data(), got.size());
            if (got != wanted) me.report.wrong("rank ", me.rank, ": ", anello_dtype_name(all[i].dtype));
          }
          me.ok(anello_gradient_sync_destroy(sync), "destroy");
        }) == "");
}

TEST_CASE("one rank's gradients may be on a device and another's on the host") {
  CHECK(run_ranks(2, "shm", [](const Rank& me) {
          Gradients mine(me, small_buckets(me.rank == 0 ? 0 : -1));
          for (int step = 0; step < 3; ++step) {
            mine.ok(anello_gradient_sync_begin(mine.sync, 0), "begin");
            for (std::size_t i = counts().size(); i-- > 0;) {
              mine.compute(i, std::vector<float>(counts()[i], float(me.rank + 1)), nullptr);
              mine.ok(anello_gradient_sync_ready(mine.sync, i, nullptr), "ready");
            }
            int done = 0;
            while (done == 0) mine.ok(anello_gradient_sync_test(mine.sync, &done), "test");
            for (std::size_t i = 0; i < counts().size(); ++i) {
              if (mine.content(i) != std::vector<float>(counts()[i], 1.5f))
                me.report.wrong("rank ", me.rank, ": the gradient of ", i);
            }
          }
        }) == "");
}

TEST_CASE("weights on a device are broadcast, small ones together") {
  CHECK(run_ranks(3, "shm", [](const Rank& me) {
          // Rank 2 has all of it on the host; the others have all but one there.
          const int device = me.rank == 2 ? -1 : 0;
          Gradients mine(me, small_buckets(device));
          const OnDevice on_device(100'063, float(me.rank));
          std::vector<float> on_host(100'063, float(me.rank));
          float* const at = device < 0 ? on_host.data() : on_device.data();
          const auto tensor = [](float* from, std::size_t count) {
            return anello_tensor_t{sizeof(anello_tensor_t), nullptr, from, count, ANELLO_FLOAT32};
          };
          const anello_tensor_t tensors[] = {tensor(at, 10), tensor(at + 10, 100'000),
                                             tensor(on_host.data() + 100'010, 50), tensor(at + 100'060, 3)};
          mine.ok(anello_gradient_sync_broadcast(mine.sync, tensors, 4, 1), "broadcast");
          if (device >= 0) {
            for (const std::size_t i : {0, 9, 10, 100'009, 100'060, 100'062})
              is(me, on_device.at(i), 1, "on the device");
            is(me, on_device.at(100'010), float(me.rank), "what is between");
          }
          is(me, on_host[100'059], 1, "on the host");
        }) == "");
}

TEST_CASE("gradients of the wrong place are refused by name, and nothing is lost") {
  CHECK(run_ranks(1, "shm", [](const Rank& me) {
          std::vector<float> host(1000);
          const OnDevice device(1000), few(20);
          const auto refused = [&](anello_result_t result, const std::string& says) {
            const std::string said = result == ANELLO_OK ? "" : anello_last_error(ANELLO_COMM_NULL);
            if (result != ANELLO_ERR_ARGUMENT || said.find(says) == std::string::npos)
              me.report.wrong(anello_result_name(result), " in place of \"", says, "\": ", said);
          };
          {
            Gradients mine(me, small_buckets(0));
            mine.ok(anello_gradient_sync_begin(mine.sync, 0), "begin");
            refused(anello_gradient_sync_ready(mine.sync, 0, host.data()),
                    "#0 lies in host memory, but the config says device 0");
            refused(anello_gradient_sync_ready(mine.sync, 2, few.data()), "#2 needs 120000 bytes of device memory");
            for (std::size_t i = counts().size(); i-- > 0;)
              mine.ok(anello_gradient_sync_ready(mine.sync, i, nullptr), "ready");
            mine.ok(anello_gradient_sync_wait(mine.sync), "wait");
          }
          Gradients mine(me, small_buckets(-1));
          mine.ok(anello_gradient_sync_begin(mine.sync, 0), "begin");
          const anello_tensor_t weights{sizeof(anello_tensor_t), nullptr, device.data(), 20, ANELLO_FLOAT32};
          refused(anello_gradient_sync_ready(mine.sync, 0, device.data()),
                  "#0 lies in a device's memory, and the config's device is -1");
          for (std::size_t i = counts().size(); i-- > 0;)
            mine.ok(anello_gradient_sync_ready(mine.sync, i, nullptr), "ready");
          mine.ok(anello_gradient_sync_wait(mine.sync), "wait");
          refused(anello_gradient_sync_broadcast(mine.sync, &weights, 1, 0),
                  "broadcast: tensor 0 lies in a device's memory");
          anello_gradient_sync_config_t config = small_buckets(63);
          anello_gradient_sync_t sync = ANELLO_GRADIENT_SYNC_NULL;
          const anello_result_t result = anello_gradient_sync_create(me.comm, nullptr, 0, &config, &sync);
          const std::string said = anello_last_error(ANELLO_COMM_NULL);
          if (result == ANELLO_OK || said.find("gradients on device 63: ") == std::string::npos)
            me.report.wrong("a device that is not there: ", said);
        }) == "");
}

TEST_CASE("a rank that goes away in the middle of a step on a device lets the others' streams pass, and is named") {
  CHECK(run_ranks(2, "shm", [](const Rank& me) {
          const Stream stream;
          auto mine = std::make_unique<Gradients>(me, small_buckets(0));
          mine->ok(anello_gradient_sync_begin(mine->sync, 0), "begin");
          me.ok(anello_barrier(me.comm), "barrier");
          if (me.rank == 1) {
            mine->ok(anello_gradient_sync_ready_on(mine->sync, 5, nullptr, stream), "ready_on");
            mine.reset();
            if (!passes(stream)) me.report.wrong("the stream of the rank that left hangs");
            return;
          }
          for (std::size_t i = counts().size(); i-- > 0;)
            (void)anello_gradient_sync_ready_on(mine->sync, i, nullptr, stream);  // may know already
          (void)anello_gradient_sync_wait_on(mine->sync, stream);
          if (!passes(stream)) me.report.wrong("the stream hangs");
          anello_result_t result = ANELLO_OK;
          const auto begin = Clock::now();
          while (result == ANELLO_OK && Clock::now() - begin < std::chrono::seconds(10))
            result = anello_gradient_sync_begin(mine->sync, 0);
          const std::string said = anello_last_error(ANELLO_COMM_NULL);
          if (result == ANELLO_OK || said.find("rank 1") == std::string::npos)
            me.report.wrong("rank 0 heard ", anello_result_name(result), ": ", said);
        }) == "");
}
