#pragma once
// A rank's communicators by their ids. Requires the rank's lock.
#include "executor/generations.h"
#include "executor/group.h"

#include <cstdint>
#include <unordered_map>

namespace anello::executor {

class Groups {
 public:
  // Null if there is no such group.
  Group* find(std::uint64_t id) {
    if (last_ != nullptr && last_->id == id) return last_;
    const auto found = by_id_.find(id);
    if (found == by_id_.end()) return nullptr;
    return last_ = found->second;
  }
  bool contains(std::uint64_t id) const { return by_id_.contains(id); }
  // Throws std::bad_alloc.
  void add(Group& group) {
    by_id_[group.id] = &group;
    generations_.made(group.id);
    last_ = &group;
  }
  void remove(Group& group) {
    if (last_ == &group) last_ = nullptr;
    by_id_.erase(group.id);
  }
  std::size_t size() const { return by_id_.size(); }
  template <class Visit>
  void each(Visit&& visit) const {
    for (const auto& [id, group] : by_id_) visit(*group);
  }
  // Whether no communicator will ever be made under the id again.
  bool is_past(std::uint64_t id) const { return generations_.is_past(id); }
  Generations& generations() { return generations_; }

 private:
  std::unordered_map<std::uint64_t, Group*> by_id_;
  Group* last_ = nullptr;
  Generations generations_;
};

}  // namespace anello::executor
