#include "control/service.h"

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "base/uncancelled.h"
#include "base/unique_fd.h"
#include "control/door.h"

#include <csignal>
#include <mutex>
#include <system_error>
#include <thread>

#include <pthread.h>

namespace anello::control {
namespace {

struct Running {
  std::mutex mutex;
  std::shared_ptr<Service> service;
  int holds = 0;
  std::thread thread;
};

// Leaked on purpose: static destructors may release holds.
Running& running() {
  static Running* const instance = new Running;
  return *instance;
}

}  // namespace

Service::Service() : work_(asio::make_work_guard(io_)), door_(std::make_shared<Door>(*this)) {}

Service::~Service() {
  // Its thread is gone: this thread runs the remaining work.
  end_coroutines();
  door_.reset();
}

void Service::end_coroutines() {
  io_.restart();
  ending_ = true;
  asio::post(io_, [this] {
    for (asio::cancellation_signal& signal : coroutines_) signal.emit(asio::cancellation_type::terminal);
  });
  for (bool more = true; more;) {
    try {
      more = io_.poll() > 0;
    } catch (const std::exception& error) {
      log::warn(-1, "service thread, at its end: ", error.what());
    }
  }
  if (!coroutines_.empty()) log::warn(-1, coroutines_.size(), " coroutine(s) did not end with the service thread");
}

void Service::post(std::function<void()> work) {
  const Uncancelled whole;
  asio::post(io_, std::move(work));
}

void Service::spawn(std::string what, Task<> task) {
  if (ending_) return;
  ended_.clear();
  const auto self = coroutines_.emplace(coroutines_.end());
  auto done = [this, self, what = std::move(what)](std::exception_ptr failure) {
    ended_.splice(ended_.end(), coroutines_, self);
    if (!failure) return;
    try {
      std::rethrow_exception(failure);
    } catch (const std::exception& error) {
      log::debug(-1, what, " ended: ", error.what());
    } catch (...) {
      log::warn(-1, what, " ended with an unknown exception");
    }
  };
  asio::co_spawn(io_, std::move(task), asio::bind_cancellation_slot(self->slot(), std::move(done)));
}

void Service::run() {
  pthread_setname_np(pthread_self(), "anello-service");
  for (;;) {
    try {
      io_.run();
      return;
    } catch (const std::exception& error) {
      // A handler has thrown (for example out of memory): its operation will miss its deadline, and the others
      // continue.
      log::warn(-1, "service thread: ", error.what());
    }
  }
}

ServiceHold ServiceHold::take() {
  watch_forks();
  Running& state = running();
  const std::lock_guard lock(state.mutex);
  if (!state.service) {
    sigset_t all, before;
    sigfillset(&all);
    try {
      auto service = std::make_shared<Service>();
      pthread_sigmask(SIG_SETMASK, &all, &before);
      try {
        state.thread = std::thread([service] { service->run(); });
      } catch (...) {
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
        throw;
      }
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
      state.service = std::move(service);
    } catch (const std::system_error& error) {
      throw Error(ANELLO_ERR_RESOURCE, text("the service thread cannot start: ", error.what()));
    }
  }
  ++state.holds;
  ServiceHold hold;
  hold.service_ = state.service;
  return hold;
}

ServiceHold& ServiceHold::operator=(ServiceHold&& other) noexcept {
  if (this != &other) {
    let_go();
    service_ = std::move(other.service_);
  }
  return *this;
}

ServiceHold::~ServiceHold() { let_go(); }

void ServiceHold::let_go() {
  if (!service_) return;
  if (in_forked_child()) {
    // This process does not have the thread, and destroying its io_context would touch descriptors that belong to the
    // parent.
    new std::shared_ptr<Service>(std::move(service_));
    return;
  }
  std::thread thread;
  {
    Running& state = running();
    const std::lock_guard lock(state.mutex);
    if (--state.holds == 0) {
      thread = std::move(state.thread);
      state.service.reset();
      service_->io_.stop();
    }
  }
  if (thread.joinable()) {
    // On its own thread the lambda's reference keeps the service until run() has returned.
    if (thread.get_id() == std::this_thread::get_id()) {
      thread.detach();
    } else {
      thread.join();
    }
  }
  service_.reset();
}

Task<> Notice::wait(std::int64_t ms) {
  asio::error_code ignored;  // a notify cancels the timer
  timer_.expires_after(std::chrono::milliseconds(ms));
  co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  if ((co_await asio::this_coro::cancellation_state).cancelled() != asio::cancellation_type::none) {
    throw asio::system_error(asio::error::operation_aborted);  // the service ends
  }
}

Task<> sleep_ms(asio::io_context& io, std::int64_t ms) {
  asio::steady_timer timer(io, std::chrono::milliseconds(ms));
  co_await timer.async_wait(asio::use_awaitable);
}

}  // namespace anello::control
