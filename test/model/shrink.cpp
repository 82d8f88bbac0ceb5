#include "model/shrink.h"

#include "model/generate.h"

#include <algorithm>
#include <chrono>

namespace anello::model {
namespace {

using Clock = std::chrono::steady_clock;

// A candidate that hangs costs this.
constexpr int kTimeout_ms = 5000;

class Shrinker {
 public:
  Shrinker(const Job& job, const std::string& trouble, int seconds)
      : best_{job, trouble, 0}, end_(Clock::now() + std::chrono::seconds(seconds)) {
    best_.job.timeout_ms = std::min(job.timeout_ms, kTimeout_ms);
    program_size_ = generate(job.seeds[0], job.ranks).size();
    best_.job.cut.steps = ids(job.cut);
  }

  Smallest run() {
    for (bool better = true; better && !late();) {
      better = fewer_steps();
      better = fewer_ranks() || better;
      better = fewer_elements() || better;
      for (const std::string& feature : Cut::kFeatures) {
        if (best_.job.cut.without.count(feature) != 0) continue;
        Cut cut = best_.job.cut;
        cut.without.insert(feature);
        try_cut(cut);  // makes it simpler to read, not to find more
      }
    }
    return best_;
  }

 private:
  // Of the steps that are left, those with them that others need.
  std::vector<int> ids(const Cut& cut) const {
    Program program = generate(best_.job.seeds[0], best_.job.ranks);
    cut.apply(program);
    std::vector<int> result;
    for (const Strand& strand : program.strands) {
      for (const Step& step : strand.steps) result.push_back(step.id);
    }
    return result;
  }

  bool late() const { return Clock::now() >= end_; }

  bool try_cut(const Cut& cut) {
    Job job = best_.job;
    job.cut = cut;
    for (int attempt = 0; attempt < 3 && !late(); ++attempt) {
      ++best_.runs;
      const Outcome outcome = model::run(job);
      if (!outcome.failed()) continue;
      best_.job = job;
      best_.trouble = outcome.trouble;
      return true;
    }
    return false;
  }

  // Without halves, quarters, .. of the steps.
  bool fewer_steps() {
    bool better = false;
    for (std::size_t piece = std::max<std::size_t>(best_.job.cut.steps->size() / 2, 1); piece > 0 && !late();
         piece /= 2) {
      for (std::size_t at = 0; at < best_.job.cut.steps->size() && !late();) {
        Cut cut = best_.job.cut;
        const auto from = cut.steps->begin() + std::ptrdiff_t(at);
        cut.steps->erase(from, from + std::ptrdiff_t(std::min(piece, cut.steps->size() - at)));
        cut.steps = ids(cut);
        const bool fewer = !cut.steps->empty() && cut.steps->size() < best_.job.cut.steps->size();
        if (fewer && try_cut(cut)) {
          better = true;
        } else {
          at += piece;
        }
      }
    }
    return better;
  }

  bool fewer_ranks() {
    bool better = false;
    int now = best_.job.cut.ranks > 0 ? best_.job.cut.ranks : program_size_;
    for (int ranks = 1; ranks < now && !late(); ++ranks) {
      Cut cut = best_.job.cut;
      cut.ranks = ranks;
      if (!try_cut(cut)) continue;
      better = true;
      break;
    }
    return better;
  }

  bool fewer_elements() {
    bool better = false;
    for (std::size_t most = best_.job.cut.most_elements > 0 ? best_.job.cut.most_elements / 2 : std::size_t(1) << 19;
         most > 0 && !late(); most /= 2) {
      Cut cut = best_.job.cut;
      cut.most_elements = most;
      if (!try_cut(cut)) break;
      better = true;
    }
    return better;
  }

  Smallest best_;
  Clock::time_point end_;
  int program_size_ = 0;
};

}  // namespace

Smallest shrink(const Job& job, const std::string& trouble, int seconds) {
  return Shrinker(job, trouble, seconds).run();
}

}  // namespace anello::model
