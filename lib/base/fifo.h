#pragma once
// A first-in first-out list of objects that carry their own link, so that queueing never allocates.
namespace anello {

template <class T, T* T::*Next>
class Fifo {
 public:
  bool empty() const { return head_ == nullptr; }
  T* front() const { return head_; }
  void push(T* item) {
    item->*Next = nullptr;
    if (tail_ == nullptr) {
      head_ = item;
    } else {
      tail_->*Next = item;
    }
    tail_ = item;
  }
  // Inserts into a sorted list, after all elements that do not come after it; mostly at the end.
  template <class Before>
  void insert(T* item, Before&& before) {
    if (tail_ == nullptr || !before(*item, *tail_)) return push(item);
    T** at = &head_;
    while (!before(*item, **at)) at = &((*at)->*Next);
    item->*Next = *at;
    *at = item;
  }
  T* pop() {
    T* item = head_;
    if (item != nullptr) {
      head_ = item->*Next;
      if (head_ == nullptr) tail_ = nullptr;
      item->*Next = nullptr;
    }
    return item;
  }
  // True if it was in the list.
  bool remove(T* item) {
    T* before = nullptr;
    for (T* at = head_; at != nullptr; before = at, at = at->*Next) {
      if (at != item) continue;
      (before == nullptr ? head_ : before->*Next) = at->*Next;
      if (tail_ == at) tail_ = before;
      at->*Next = nullptr;
      return true;
    }
    return false;
  }
  static T* after(T* item) { return item->*Next; }
  // visit may not change the list.
  template <class Visit>
  void each(Visit&& visit) const {
    for (T* at = head_; at != nullptr; at = at->*Next) visit(*at);
  }

 private:
  T* head_ = nullptr;
  T* tail_ = nullptr;
};

}  // namespace anello
