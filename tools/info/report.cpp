#include "info/report.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <sstream>

namespace info {
namespace {

// A host's file may contain bytes that are not UTF-8; they become U+FFFD.
std::string written(const nlohmann::ordered_json& report) {
  return report.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string as_table(const std::vector<Section>& sections) {
  std::size_t names = 0;
  std::size_t values = 0;
  for (const Section& section : sections) {
    for (const Entry& entry : section.entries) {
      names = std::max(names, entry.name.size());
      if (!entry.remark.empty()) values = std::max(values, entry.value.size());
    }
  }
  std::ostringstream out;
  for (const Section& section : sections) {
    out << section.name << '\n';
    for (const Entry& entry : section.entries) {
      out << "  " << entry.name << std::string(names - entry.name.size() + 2, ' ') << entry.value;
      if (!entry.remark.empty()) out << std::string(values - entry.value.size() + 2, ' ') << entry.remark;
      out << '\n';
    }
  }
  return out.str();
}

std::string as_json(const std::vector<Section>& sections) {
  nlohmann::ordered_json report;
  for (const Section& section : sections) {
    nlohmann::ordered_json& object = report[section.name] = nlohmann::ordered_json::object();
    for (const Entry& entry : section.entries) {
      object[entry.name] = {{"value", entry.value}};
      if (!entry.remark.empty()) object[entry.name]["remark"] = entry.remark;
    }
  }
  return written(report);
}

std::string as_json(const std::vector<shared::Finding>& findings) {
  nlohmann::ordered_json report = nlohmann::ordered_json::array();
  for (const shared::Finding& each : findings) {
    nlohmann::ordered_json& object = report.emplace_back();
    object = {{"check", each.name}, {"verdict", shared::word_of(each.verdict)}, {"value", each.value}};
    if (each.verdict == shared::Verdict::ok) continue;
    object["meaning"] = each.meaning;
    object["remedy"] = each.remedy;
  }
  return written(report);
}

}  // namespace info
