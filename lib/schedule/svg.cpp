#include "schedule/svg.h"

#include "base/text.h"
#include "schedule/catalog.h"
#include "schedule/predict.h"
#include "schedule/shape.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <map>
#include <optional>
#include <utility>

namespace anello::schedule {
namespace {

constexpr double kLeft = 76;
constexpr double kTop = 116;
constexpr double kSlot = 132;
constexpr double kBox = 70;  // width of a box
constexpr double kBoxHeight = 24;
constexpr double kLine = 30;  // from one box of a cell to the next
constexpr double kBandPadding = 17;
constexpr double kGap = 10;     // between bands
constexpr double kLeast = 720;  // wide enough for the key

class Drawing {
 public:
  Drawing(const Calls& calls, const Topology& topology, const std::vector<Schedule>& schedules)
      : calls_(calls), call_(calls.shared()), topology_(topology), schedules_(schedules) {
    Cost a_slot_each;
    a_slot_each.message_s = 1;
    spans_ = predict(call_, topology, schedules, a_slot_each).spans;
    match();
    place();
  }

  std::string draw() {
    const double width = std::max(kLeft + kSlot * static_cast<double>(slots_) + 24, kLeast);
    const double height = kTop + (band_ + kGap) * static_cast<double>(schedules_.size()) + 44;
    out_ << "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 " << width << ' ' << height << "' width='" << width
         << "' height='" << height << "' font-family='Inter, Helvetica, Arial, sans-serif'>\n"
         << "<rect width='100%' height='100%' fill='#ffffff'/>\n";
    head();
    bands(width);
    // Arrows below the boxes, so that labels stay legible.
    for (std::size_t r = 0; r < schedules_.size(); ++r) arrows(r);
    board();
    for (std::size_t r = 0; r < schedules_.size(); ++r) boxes(r);
    key(height - 26);
    out_ << "</svg>\n";
    return std::move(out_).str();
  }

 private:
  struct Spot {
    long slot = 0;
    std::size_t line = 0;
  };

  const Step& step(std::size_t r, std::size_t s) const { return schedules_[r].steps[s]; }

  // The rank and the slice that each receive gets.
  void match() {
    arriving_.resize(schedules_.size());
    for (std::size_t r = 0; r < schedules_.size(); ++r)
      for (const Lane& lane : schedules_[r].lanes) {
        const auto peer = static_cast<std::size_t>(lane.peer);
        for (const Lane& back : schedules_[peer].lanes)
          if (back.peer == static_cast<int>(r))
            for (std::size_t k = 0; k < lane.sends.size(); ++k)
              arriving_[peer][back.receives[k]] = {r, step(r, lane.sends[k]).from};
      }
  }

  void place() {
    std::map<std::pair<std::size_t, long>, std::size_t> lines;
    for (std::size_t r = 0; r < schedules_.size(); ++r) {
      spots_.emplace_back();
      for (std::size_t s = 0; s < schedules_[r].steps.size(); ++s) {
        const bool sends = step(r, s).kind == Kind::send;
        const Span& span = spans_[r][s];
        const long slot = std::max(0L, std::lround(std::ceil(sends ? span.begin_s : span.end_s - 1)));
        // Sends need no line of their own: they are dots on the left of the cell.
        const std::size_t line = sends ? 0 : lines[{r, slot}]++;
        spots_[r].push_back({slot, line});
        slots_ = std::max(slots_, slot + 1);
        most_lines_ = std::max(most_lines_, line + 1);
      }
    }
    band_ = 2 * kBandPadding + kLine * static_cast<double>(most_lines_ - 1) + kBoxHeight;
  }

  double band_top(std::size_t r) const { return kTop + (band_ + kGap) * static_cast<double>(r); }
  double slot_left(long slot) const { return kLeft + kSlot * static_cast<double>(slot); }
  double box_left(const Spot& spot) const { return slot_left(spot.slot) + kSlot - kBox - 8; }
  double box_middle(std::size_t r, const Spot& spot) const {
    const double used = kLine * static_cast<double>(most_lines_ - 1) + kBoxHeight;
    return band_top(r) + (band_ - used) / 2 + kBoxHeight / 2 + kLine * static_cast<double>(spot.line);
  }

  // The place in the whole vector that a step works on, or nullopt if it only touches private buffers. A message shows
  // it best: an accumulator or the output of a reduce_scatter begins at 0 on every rank.
  std::optional<Slice> position(std::size_t r, std::size_t s) const {
    const Step& what = step(r, s);
    if (what.kind == Kind::barrier) return std::nullopt;
    if (const auto sent = arriving_[r].find(s); sent != arriving_[r].end())
      if (const auto placed = in_vector(sent->second.first, sent->second.second)) return placed;
    if (what.kind != Kind::recv)
      if (const auto placed = in_vector(r, what.from)) return placed;
    if (what.kind != Kind::send) return in_vector(r, what.into);
    return std::nullopt;
  }
  std::optional<Slice> in_vector(std::size_t r, Slice slice) const {
    if (slice.owner >= 0) r = static_cast<std::size_t>(slice.owner);
    if (call_.collective == Collective::barrier || whole() == 0) return std::nullopt;
    if (slice.buffer != Buffer::output && slice.buffer != Buffer::input) return std::nullopt;
    if (slice.buffer == Buffer::input ? gives_one_part() : gets_one_part()) slice.offset += part_at(r);
    return slice;
  }
  bool gives_one_part() const {
    return is_one_of({Collective::allgather, Collective::gather, Collective::allgatherv, Collective::gatherv});
  }
  bool gets_one_part() const {
    return is_one_of({Collective::scatter, Collective::scatterv}) ||
           (is_one_of({Collective::reduce_scatter, Collective::reduce_scatterv}) && !call_.in_place);
  }
  bool is_one_of(std::initializer_list<Collective> some) const {
    return std::find(some.begin(), some.end(), call_.collective) != some.end();
  }
  // Where the rank's part begins in the whole vector.
  std::size_t part_at(std::size_t r) const {
    if (!is_varying(call_.collective)) return r * call_.count;
    const Varying& parts = *calls_.of(call_.root).varying;
    return gives_one_part() ? parts.receive_at[r] : parts.send_at[r];
  }
  std::size_t whole() const {
    const Call& call = calls_.of(call_.root);
    return std::max(input_count(call, topology_.size, call.root), result_count(call, topology_.size, call.root));
  }
  // Each place has a hue: a block keeps its colour on its way from rank to rank.
  std::string colour(std::size_t r, std::size_t s, int lightness, int saturation = 58) const {
    const auto placed = position(r, s);
    if (!placed) return text("hsl(220,8%,", lightness, "%)");
    const double hue = 360 * static_cast<double>(placed->offset) / static_cast<double>(whole());
    return text("hsl(", std::lround(hue + 212) % 360, ',', saturation, "%,", lightness, "%)");
  }
  static std::string range(const Slice& slice) {
    if (slice.count == 1) return text(slice.offset);
    return text(slice.offset, "–", slice.offset + slice.count - 1);
  }
  std::string label(std::size_t r, std::size_t s) const {
    const auto placed = position(r, s);
    const std::string where = placed ? range(*placed) : "token";
    switch (step(r, s).kind) {
      case Kind::recv_reduce: return "+ " + where;
      case Kind::reduce:
      case Kind::reduce_ranks:
      case Kind::reduce_staged: return "reduce " + where;
      case Kind::copy: return touches_peers(step(r, s)) ? "= " + where : "copy " + where;
      case Kind::finish: return "fin " + where;
      case Kind::exchange: return "exchange";
      case Kind::barrier: return "barrier";
      case Kind::send:
      case Kind::recv: break;
    }
    return where;
  }

  void words(double x, double y, int size, const char* fill, const std::string& what, const char* more = "") {
    out_ << "<text x='" << x << "' y='" << y << "' font-size='" << size << "' fill='" << fill << "' " << more << '>'
         << what << "</text>\n";
  }

  void head() {
    const std::string algorithm = schedules_.empty() ? "" : schedules_[0].algorithm;
    words(24, 40, 22, "#111827", text(algorithm, ' ', name(call_.collective)), "font-weight='600'");
    words(24, 64, 13, "#6b7280",
          text(topology_.size, topology_.size == 1 ? " rank, " : " ranks, ",
               is_varying(call_.collective) ? whole() : call_.count, " elements",
               has_parts(call_.collective) ? " each" : "", call_.in_place ? ", in place" : "",
               call_.accumulate ? ", wide accumulator" : "", call_.invariant ? ", reduced in rank order" : "",
               call_.finish ? ", average" : ""));
    for (long slot = 0; slot < slots_; ++slot)
      words(slot_left(slot) + kSlot / 2, kTop - 14, 12, "#9ca3af", text(slot), "text-anchor='middle'");
    words(24, kTop - 14, 12, "#9ca3af", "slot");
  }
  void bands(double width) {
    const double bottom = band_top(schedules_.size()) - kGap;
    for (std::size_t r = 0; r < schedules_.size(); ++r) {
      out_ << "<rect x='" << kLeft - 8 << "' y='" << band_top(r) << "' width='" << width - kLeft - 8 << "' height='"
           << band_ << "' rx='8' fill='#f4f5f7'/>\n"
           << "<circle cx='42' cy='" << band_top(r) + band_ / 2 << "' r='17' fill='#111827'/>\n";
      words(42, band_top(r) + band_ / 2 + 5, 14, "#ffffff", text(r), "text-anchor='middle' font-weight='600'");
    }
    for (long slot = 1; slot < slots_; ++slot)
      out_ << "<line x1='" << slot_left(slot) - 4 << "' x2='" << slot_left(slot) - 4 << "' y1='" << kTop - 6 << "' y2='"
           << bottom << "' stroke='#d9dce1' stroke-dasharray='2 4'/>\n";
  }

  void arrows(std::size_t r) {
    for (const Lane& lane : schedules_[r].lanes) {
      const auto peer = static_cast<std::size_t>(lane.peer);
      for (const Lane& back : schedules_[peer].lanes) {
        if (back.peer != static_cast<int>(r)) continue;
        for (std::size_t k = 0; k < lane.sends.size(); ++k) arrow(r, lane.sends[k], peer, back.receives[k]);
      }
    }
  }
  void arrow(std::size_t r, std::uint32_t send, std::size_t peer, std::uint32_t receive) {
    const Spot& from = spots_[r][send];
    const Spot& to = spots_[peer][receive];
    const double x1 = slot_left(from.slot) + 9;
    const double y1 = band_top(r) + band_ / 2;
    const double x2 = box_left(to) - 7;
    const double y2 = box_middle(peer, to);
    const std::string stroke = colour(peer, receive, 48);
    // Long arrows (around the ring, over a tree) are drawn behind the short ones.
    const bool far = std::max(r, peer) - std::min(r, peer) > 1;
    const double bend = (x2 - x1) * 0.5;
    out_ << "<g stroke='" << stroke << "' fill='" << stroke << "' opacity='" << (far ? 0.55 : 0.95) << "'>"
         << "<circle cx='" << x1 << "' cy='" << y1 << "' r='4' stroke='none'/>"
         << "<path d='M" << x1 << ' ' << y1 << " C" << x1 + bend << ' ' << y1 << ' ' << x2 - bend << ' ' << y2 << ' '
         << x2 << ' ' << y2 << "' fill='none' stroke-width='1.8'/>"
         << "<path d='M" << x2 + 6 << ' ' << y2 << " l-8 -4 l0 8 z' stroke='none'/></g>\n";
  }

  // The steps in which all ranks take part.
  static bool joins(const Step& what) { return what.kind == Kind::exchange || what.kind == Kind::barrier; }
  std::vector<std::size_t> joint_steps(std::size_t r) const {
    std::vector<std::size_t> result;
    for (std::size_t s = 0; s < schedules_[r].steps.size(); ++s)
      if (joins(step(r, s))) result.push_back(s);
    return result;
  }
  // These steps have no arrows but one board, which all ranks write to and read.
  void board() {
    const std::size_t last = schedules_.size() - 1;
    const std::vector<std::size_t> of_first = joint_steps(0);
    const std::vector<std::size_t> of_last = joint_steps(last);
    for (std::size_t k = 0; k < of_first.size(); ++k) {
      const Spot& spot = spots_[0][of_first[k]];
      const double top = box_middle(0, spot);
      out_ << "<rect x='" << box_left(spot) + kBox / 2 - 7 << "' y='" << top << "' width='14' height='"
           << box_middle(last, spots_[last][of_last[k]]) - top << "' fill='" << colour(0, of_first[k], 80, 50)
           << "'/>\n";
    }
  }

  void boxes(std::size_t r) {
    for (std::size_t s = 0; s < schedules_[r].steps.size(); ++s) {
      const Step& what = step(r, s);
      if (what.kind == Kind::send) continue;
      const Spot& spot = spots_[r][s];
      const bool solid = what.kind == Kind::recv || what.kind == Kind::copy || joins(what);
      const bool dashed = what.peer < 0 && !joins(what) && !touches_peers(what);
      const std::string edge = colour(r, s, 42);
      const double y = box_middle(r, spot);
      out_ << "<rect x='" << box_left(spot) << "' y='" << y - kBoxHeight / 2 << "' width='" << kBox << "' height='"
           << kBoxHeight << "' rx='6' fill='"
           << (dashed  ? "#ffffff"
               : solid ? edge
                       : colour(r, s, 92, 70))
           << "' stroke='" << edge << "' stroke-width='1.5'" << (dashed ? " stroke-dasharray='4 2'" : "") << "/>\n";
      const std::string ink = solid && !dashed ? "#ffffff" : colour(r, s, 26);
      const std::string words_in = label(r, s);
      words(box_left(spot) + kBox / 2, y + 4, words_in.size() > 11 ? 10 : 12, ink.c_str(), words_in,
            "text-anchor='middle' font-weight='500'");
    }
  }

  void key(double y) {
    double x = 24;
    const auto entry = [&](const char* fill, const char* dash, const char* what, double advance) {
      out_ << "<rect x='" << x << "' y='" << y - 10 << "' width='18' height='13' rx='3' fill='" << fill
           << "' stroke='hsl(212,58%,42%)' stroke-width='1.5' stroke-dasharray='" << dash << "'/>\n";
      words(x + 25, y, 12, "#4b5563", what);
      x += advance;
    };
    entry("hsl(212,70%,92%)", "none", "arrives and is reduced", 180);
    entry("hsl(212,58%,42%)", "none", "arrives as it is", 140);
    entry("#ffffff", "4 2", "local: copy, reduce, finish", 190);
    words(x, y, 12, "#4b5563", "colour: place in the vector");
  }

  const Calls& calls_;
  const Call& call_;
  const Topology& topology_;
  const std::vector<Schedule>& schedules_;
  std::vector<std::vector<Span>> spans_;
  std::vector<std::map<std::size_t, std::pair<std::size_t, Slice>>> arriving_;  // by rank and receive: who sent what
  std::vector<std::vector<Spot>> spots_;
  long slots_ = 1;
  std::size_t most_lines_ = 1;
  double band_ = 0;
  std::ostringstream out_;
};

}  // namespace

std::string svg(const Calls& calls, const Topology& topology, const std::vector<Schedule>& schedules) {
  return Drawing(calls, topology, schedules).draw();
}

}  // namespace anello::schedule
