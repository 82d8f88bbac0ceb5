#pragma once
// A lane whose other end is a list: the frames that a peer sends, whatever they say. It takes this end's frames and
// forgets them.
#include "transports/remote_memory.h"
#include "transports/transport.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

namespace anello::test {

struct ScriptedFrame {
  transport::FrameHeader header;
  std::vector<std::byte> payload;  // as long as the header says
};
using Script = std::deque<ScriptedFrame>;

class ScriptedEndpoint final : public transport::Endpoint {
 public:
  explicit ScriptedEndpoint(std::shared_ptr<Script> script) : script_(std::move(script)) {}

  bool send(const transport::FrameHeader&, const std::byte*) override { return true; }
  bool mid_frame() const override { return false; }
  void detach() override {}
  bool flush() override { return true; }

  const transport::FrameHeader* incoming() override {
    if (under_way_ && remaining() > 0) return &now_.header;
    under_way_ = !script_->empty();
    if (!under_way_) return nullptr;
    now_ = std::move(script_->front());
    script_->pop_front();
    consumed_ = 0;
    return &now_.header;
  }
  std::size_t remaining() const override { return under_way_ ? now_.payload.size() - consumed_ : 0; }
  std::size_t receive(std::byte* into, std::size_t bytes) override {
    const std::size_t part = std::min(bytes, remaining());
    if (part > 0) std::memcpy(into, now_.payload.data() + consumed_, part);
    consumed_ += part;
    return part;
  }
  std::span<const std::byte> view() override { return {now_.payload.data() + consumed_, remaining()}; }
  void consume(std::size_t bytes) override { consumed_ += std::min(bytes, remaining()); }
  const Error* failure() const override { return nullptr; }

 private:
  std::shared_ptr<Script> script_;
  ScriptedFrame now_;
  std::size_t consumed_ = 0;
  bool under_way_ = false;
};

class ScriptedTransport final : public transport::Transport {
 public:
  explicit ScriptedTransport(std::shared_ptr<Script> script, std::unique_ptr<transport::RemoteMemory> memory = nullptr)
      : script_(std::move(script)), memory_(std::move(memory)) {}
  std::string_view name() const override { return "scripted"; }
  bool needs_connection() const override { return false; }
  transport::RemoteMemory* remote_memory() override { return memory_.get(); }
  std::unique_ptr<transport::Endpoint> open(int, int, transport::Connections) override {
    return std::make_unique<ScriptedEndpoint>(script_);
  }

 private:
  std::shared_ptr<Script> script_;
  std::unique_ptr<transport::RemoteMemory> memory_;
};

}  // namespace anello::test
