#include "timeline.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace fashion {
namespace {

std::string formatted(const char* format, auto... values) {
  char text[256];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

}  // namespace

double Timeline::hidden() const {
  double sent = 0, waited = 0, until = 0, wait_from = end;
  for (const Row& row : rows) {
    if (row.kind == waiting) wait_from = row.from;
  }
  for (const Row& row : rows) {
    if (row.kind != sending) continue;
    const double from = std::max(row.from, until);  // rows begin in order
    until = std::max(until, row.until);
    sent += std::max(0.0, until - from);
    waited += std::max(0.0, until - std::max(from, wait_from));
  }
  return sent > 0 ? 1 - waited / sent : 0;
}

std::string Timeline::text() const {
  constexpr int kColumns = 64;
  const auto column = [&](double at) { return static_cast<int>(std::lround(at / end * kColumns)); };
  std::size_t width = 0;
  for (const Row& row : rows) width = std::max(width, row.name.size());
  std::string all;
  for (const Row& row : rows) {
    std::string bar(kColumns, ' ');
    const int from = std::min(column(row.from), kColumns - 1);
    const int until = std::clamp(column(row.until), from + 1, kColumns);
    std::fill(bar.begin() + from, bar.begin() + until, row.kind == computing ? '#' : row.kind == sending ? '=' : '.');
    all += formatted("  %-*s |%s| %7.3f to %7.3f ms\n", static_cast<int>(width), row.name.c_str(), bar.c_str(),
                     1e3 * row.from, 1e3 * row.until);
  }
  return all + formatted("  %.0f %% of the communication was hidden behind the backward pass\n", 100 * hidden());
}

std::string Timeline::svg() const {
  constexpr int kLeft = 150, kWidth = 720, kRow = 22, kTop = 54;
  const char* const colours[] = {"#4e79a7", "#f28e2b", "#bab0ac"};
  const int height = kTop + static_cast<int>(rows.size()) * kRow + 34;
  std::string out = formatted(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" "
      "font-size=\"12\">\n",
      kLeft + kWidth + 20, height);
  out += "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
  out += formatted(
      "<text x=\"%d\" y=\"20\" font-size=\"14\">One step on rank 0: %.2f ms, %.0f %% of the communication "
      "hidden</text>\n",
      kLeft, 1e3 * end, 100 * hidden());
  const char* const kinds[] = {"backward pass", "all-reduce", "waiting"};
  for (int kind = 0; kind < 3; ++kind) {
    out +=
        formatted("<rect x=\"%d\" y=\"30\" width=\"12\" height=\"12\" fill=\"%s\"/><text x=\"%d\" y=\"40\">%s</text>\n",
                  kLeft + 130 * kind, colours[kind], kLeft + 130 * kind + 18, kinds[kind]);
  }
  const auto place = [&](double at) { return kLeft + kWidth * at / end; };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    const int y = kTop + static_cast<int>(i) * kRow;
    out += formatted("<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n", kLeft - 8, y + 13, row.name.c_str());
    out += formatted(
        "<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"16\" fill=\"%s\"><title>%.3f to %.3f ms</title></rect>\n",
        place(row.from), y, std::max(place(row.until) - place(row.from), 1.0), colours[row.kind], 1e3 * row.from,
        1e3 * row.until);
  }
  const int axis = kTop + static_cast<int>(rows.size()) * kRow + 4;
  for (int tick = 0; tick <= 4; ++tick) {
    out += formatted(
        "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\" stroke=\"#ccc\"/><text x=\"%.1f\" y=\"%d\" "
        "text-anchor=\"middle\">%.2f ms</text>\n",
        place(end * tick / 4), place(end * tick / 4), kTop - 4, axis, place(end * tick / 4), axis + 16,
        1e3 * end * tick / 4);
  }
  return out + "</svg>\n";
}

}  // namespace fashion
