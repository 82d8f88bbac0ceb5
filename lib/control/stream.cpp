#include "control/stream.h"

#include "control/descriptor_passing.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/socket.h>

namespace anello::control {
namespace {

Error closed() { return {ANELLO_ERR_PEER_LOST, "the connection was closed"}; }
// The error of a system call. It also means that the other side has closed while data was in flight.
Error failure_of(const char* call, int cause) {
  return cause == EPIPE || cause == ECONNRESET ? Error(ANELLO_ERR_PEER_LOST, system_text(call, cause))
                                               : system_error(call, cause);
}

}  // namespace

Stream::Stream(asio::io_context& io, UniqueFd socket) : io_(io), socket_(std::move(socket)), waiter_(io) {
  const int flags = ::fcntl(socket_.get(), F_GETFL);
  if (flags < 0 || ::fcntl(socket_.get(), F_SETFL, flags | O_NONBLOCK) != 0) throw system_error("fcntl", errno);
  asio::error_code failure;
  waiter_.assign(socket_.get(), failure);
  if (failure) throw system_error("epoll_ctl", failure.value());
}

void Stream::close() {
  if (waiter_.is_open()) waiter_.release();
  socket_.reset();
}

UniqueFd Stream::release() {
  if (waiter_.is_open()) waiter_.release();
  return std::move(socket_);
}

Task<> Stream::wait(asio::posix::stream_descriptor::wait_type what) {
  asio::error_code failure;
  co_await waiter_.async_wait(what, asio::redirect_error(asio::use_awaitable, failure));
  if (!socket_) throw closed();
  if (failure == asio::error::operation_aborted) throw asio::system_error(failure);  // the service ends
  if (failure) throw system_error("epoll", failure.value());
}

Task<> Stream::writable() { co_await wait(asio::posix::stream_descriptor::wait_write); }

Task<> Stream::readable() { co_await wait(asio::posix::stream_descriptor::wait_read); }

Task<> Stream::read(std::span<std::byte> into) {
  while (!into.empty()) {
    if (!socket_) throw closed();
    const ssize_t got = ::recv(socket_.get(), into.data(), into.size(), MSG_DONTWAIT);
    if (got > 0) {
      into = into.subspan(static_cast<std::size_t>(got));
    } else if (got == 0) {
      throw closed();
    } else if (errno == EAGAIN) {
      co_await wait(asio::posix::stream_descriptor::wait_read);
    } else if (errno != EINTR) {
      throw failure_of("recv", errno);
    }
  }
}

Task<> Stream::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (!socket_) throw closed();
    const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      co_await wait(asio::posix::stream_descriptor::wait_write);
    } else if (errno != EINTR) {
      throw failure_of("send", errno);
    }
  }
}

Task<> Stream::write_descriptors(std::byte mark, std::span<const int> descriptors) {
  for (;;) {
    if (!socket_) throw closed();
    if (send_with_descriptors(socket_.get(), {&mark, 1}, descriptors) == 1) co_return;
    // ETOOMANYREFS: too many descriptors of this user are in flight; the number falls as they are received.
    if (errno == ETOOMANYREFS) {
      co_await sleep_ms(io_, 5);
    } else if (errno == EAGAIN) {
      co_await wait(asio::posix::stream_descriptor::wait_write);
    } else {
      throw failure_of("sendmsg", errno);
    }
  }
}

Task<std::byte> Stream::read_descriptors(std::vector<UniqueFd>& descriptors) {
  for (;;) {
    if (!socket_) throw closed();
    std::byte mark{};
    const ssize_t got = receive_with_descriptors(socket_.get(), {&mark, 1}, descriptors);
    if (got == 1) co_return mark;
    if (got == 0) throw closed();
    if (errno != EAGAIN) throw failure_of("recvmsg", errno);
    co_await wait(asio::posix::stream_descriptor::wait_read);
  }
}

TimeLimit::TimeLimit(const std::shared_ptr<Stream>& stream, std::int64_t ms)
    : timer_(stream->io(), std::chrono::milliseconds(ms)) {
  timer_.async_wait([weak = std::weak_ptr(stream)](const asio::error_code& failure) {
    if (failure) return;
    if (const auto alive = weak.lock()) alive->close();
  });
}

}  // namespace anello::control
