#include "anellorun/channel.h"

#include <unistd.h>

#include <array>
#include <cstring>

namespace anellorun {

Channel::Channel(Descriptor from, Descriptor to, bool noise)
    : from_(std::move(from)), to_(std::move(to)), noise_(noise) {
  make_nonblocking(from_);
  make_nonblocking(to_);
}

void Channel::send(Kind kind, const Writer& body) {
  const auto length = static_cast<std::uint32_t>(body.body().size());
  waiting_.append(reinterpret_cast<const char*>(&length), sizeof length);
  waiting_ += static_cast<char>(kind);
  waiting_ += body.body();
}

void Channel::write_some() {
  while (pending()) {
    const ssize_t written = ::write(to_.get(), waiting_.data(), waiting_.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) return;
    if (written < 0) {
      to_.close();
      waiting_.clear();
      return;
    }
    // The secret may be among these bytes.
    explicit_bzero(waiting_.data(), static_cast<std::size_t>(written));
    waiting_.erase(0, static_cast<std::size_t>(written));
  }
}

bool Channel::read_some() {
  std::array<char, 64 * 1024> buffer;
  const ssize_t got = ::read(from_.get(), buffer.data(), buffer.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (got <= 0) {
    from_.close();
    return false;
  }
  if (read_ == arrived_.size()) arrived_.clear(), read_ = 0;
  arrived_.append(buffer.data(), static_cast<std::size_t>(got));
  if (noise_) {
    const std::size_t at = arrived_.find(kPreamble);
    if (at != std::string::npos) {
      noise_ = false;
      arrived_.erase(0, at + kPreamble.size());
    } else if (arrived_.size() > kMaxNoise) {
      throw WrongFrame();
    }
  }
  return true;
}

std::optional<Frame> Channel::next() {
  constexpr std::size_t kHead = 5;
  const std::string_view rest = std::string_view(arrived_).substr(read_);
  if (noise_ || rest.size() < kHead) return std::nullopt;
  std::uint32_t length;
  std::memcpy(&length, rest.data(), sizeof length);
  if (length > kMaxFrame) throw WrongFrame();
  if (rest.size() < kHead + length) return std::nullopt;
  Frame frame{static_cast<Kind>(rest[4]), std::string(rest.substr(kHead, length))};
  read_ += kHead + length;
  return frame;
}

void Channel::close() {
  from_.close();
  to_.close();
  waiting_.clear();
}

}  // namespace anellorun
