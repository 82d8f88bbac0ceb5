#include "api/making.h"

#include <condition_variable>
#include <mutex>
#include <thread>

namespace anello::api {
namespace {

// Shared by the thread that makes it and those that wait; each keeps it alive.
struct Progress {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::shared_ptr<Communicator> made;
  Error error;
};

class InBackground : public Making {
 public:
  InBackground(std::shared_ptr<Progress> progress, anello_comm_t* result)
      : progress_(std::move(progress)), result_(result) {}

  bool done() override {
    const std::lock_guard held(progress_->mutex);
    return progress_->done;
  }
  void wait() override {
    std::unique_lock held(progress_->mutex);
    progress_->changed.wait(held, [this] { return progress_->done; });  // creation has its own deadline
  }
  void finish() override {
    if (progress_->error) throw progress_->error;
    *result_ = publish(std::move(progress_->made));
  }

 private:
  std::shared_ptr<Progress> progress_;
  anello_comm_t* result_;
};

}  // namespace

std::shared_ptr<Making> make_in_background(std::function<std::shared_ptr<Communicator>()> create,
                                           anello_comm_t* result) {
  auto progress = std::make_shared<Progress>();
  std::thread([progress, create = std::move(create)] {
    std::shared_ptr<Communicator> made;
    Error error;
    try {
      made = create();
    } catch (const Error& thrown) {
      error = thrown;
    } catch (const std::bad_alloc&) {
      error = Error(ANELLO_ERR_RESOURCE, "out of memory");
    } catch (const std::exception& thrown) {
      error = Error(ANELLO_ERR_INTERNAL, thrown.what());
    }
    const std::lock_guard held(progress->mutex);
    progress->made = std::move(made);
    progress->error = error;
    progress->done = true;
    progress->changed.notify_all();
  }).detach();  // a caller need not wait for it
  return std::make_shared<InBackground>(std::move(progress), result);
}

}  // namespace anello::api
