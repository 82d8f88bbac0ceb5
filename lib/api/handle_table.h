#pragma once
// Maps handles to objects. A handle is a number: index and generation. A released handle is recognised by its
// generation and never dereferenced; a thread inside a call keeps the object alive until the call ends.
#include "base/this_thread.h"
#include "base/store_barrier.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <sched.h>

namespace anello::api {

// How calls inside an object are counted. of_owner: without locked instructions on the thread that used it first. A
// thread that removes the object pays for this with a barrier over all processors, so it suits objects that are used
// often and rarely removed.
enum class Counting { of_owner, of_all };

template <class Object, Counting counting>
class HandleTable {
  struct Slot {
    std::atomic<std::uint32_t> generation{1};  // odd: in use
    std::atomic<std::uint32_t> users{0};
    // The thread that first used the slot always counts without locked instructions: a thread that removes an object
    // makes that count visible (store_barrier.h) before it reads it.
    std::atomic<const void*> owner{nullptr};
    std::atomic<std::uint32_t> owner_users{0};
    Object object{};
  };
  static bool owns(Slot& slot) {
    if (counting == Counting::of_all) return false;
    const void* const owner = slot.owner.load(std::memory_order_relaxed);
    if (owner == this_thread()) return true;
    if (owner != nullptr || !agrees_to_store_barriers()) return false;
    const void* nobody = nullptr;
    return slot.owner.compare_exchange_strong(nobody, this_thread(), std::memory_order_relaxed);
  }

 public:
  // Keeps the object while it lives. False: the handle is invalid or was released.
  class Use {
   public:
    Use(HandleTable& table, std::uintptr_t handle) : slot_(table.slot(handle)) {
      if (slot_ == nullptr) return;
      owner_ = owns(*slot_);
      if (owner_) {
        slot_->owner_users.store(slot_->owner_users.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        std::atomic_signal_fence(std::memory_order_seq_cst);
      } else {
        slot_->users.fetch_add(1, std::memory_order_seq_cst);
      }
      if (slot_->generation.load(std::memory_order_seq_cst) == generation_of(handle)) return;
      leave();
      slot_ = nullptr;
    }
    ~Use() {
      if (slot_ != nullptr) leave();
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    explicit operator bool() const { return slot_ != nullptr; }
    Object& operator*() const { return slot_->object; }
    Object* operator->() const { return &slot_->object; }

   private:
    void leave() {
      if (owner_) {
        slot_->owner_users.store(slot_->owner_users.load(std::memory_order_relaxed) - 1, std::memory_order_release);
      } else {
        slot_->users.fetch_sub(1, std::memory_order_release);
      }
    }
    Slot* slot_;
    bool owner_ = false;
  };

  std::uintptr_t add(Object object) {
    std::uint32_t index = 0;
    {
      const std::lock_guard held(mutex_);
      if (free_.empty()) {
        if (count_ == kSlots * kChunks) throw std::bad_alloc();
        if (count_ % kSlots == 0) chunks_[count_ / kSlots].store(new Slot[kSlots], std::memory_order_release);
        index = count_++;
      } else {
        index = free_.back();
        free_.pop_back();
      }
    }
    Slot& slot = chunks_[index / kSlots].load(std::memory_order_relaxed)[index % kSlots];
    slot.object = std::move(object);
    // Even while free, odd while in use: a stale handle equals no fresh one for two billion reuses.
    const std::uint32_t generation = (slot.generation.load(std::memory_order_relaxed) + 1) | 1;
    slot.generation.store(generation, std::memory_order_seq_cst);
    return std::uintptr_t{generation} << 24 | (index + 1);
  }

  // Removes the object once no call uses it any more; empty for a handle that was already released. between is called
  // with the object when the handle is invalid but calls may still be inside, to end them.
  template <class Between>
  std::optional<Object> remove(std::uintptr_t handle, Between&& between) {
    Slot* const at = slot(handle);
    std::uint32_t expected = generation_of(handle);
    if (at == nullptr || !at->generation.compare_exchange_strong(expected, expected + 1)) return std::nullopt;
    between(at->object);
    if (counting == Counting::of_owner) own_store_barrier();
    while (at->users.load(std::memory_order_seq_cst) != 0 || at->owner_users.load(std::memory_order_acquire) != 0)
      sched_yield();
    std::optional<Object> out(std::move(at->object));
    at->object = Object{};
    const std::lock_guard held(mutex_);
    free_.push_back(static_cast<std::uint32_t>((handle & kIndexMask) - 1));
    return out;
  }

 private:
  static constexpr std::uint32_t kSlots = 1024;
  static constexpr std::uint32_t kChunks = 4096;
  static constexpr std::uintptr_t kIndexMask = (1u << 24) - 1;

  static std::uint32_t generation_of(std::uintptr_t handle) { return static_cast<std::uint32_t>(handle >> 24); }
  Slot* slot(std::uintptr_t handle) {
    const std::uintptr_t index = handle & kIndexMask;
    if (index == 0 || index > kSlots * kChunks || (generation_of(handle) & 1) == 0) return nullptr;
    Slot* const chunk = chunks_[(index - 1) / kSlots].load(std::memory_order_acquire);
    return chunk == nullptr ? nullptr : &chunk[(index - 1) % kSlots];
  }

  std::mutex mutex_;
  std::vector<std::uint32_t> free_;
  std::uint32_t count_ = 0;
  std::atomic<Slot*> chunks_[kChunks]{};  // never freed: a stale handle may always point into them
};

}  // namespace anello::api
