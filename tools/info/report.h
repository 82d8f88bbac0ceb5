#pragma once
// The findings of anello-info: sections of named values, written as a table or as JSON. A value has a remark if a
// person should do or know something about it.
#include "shared/findings.h"

#include <string>
#include <vector>

namespace info {

struct Entry {
  std::string name;
  std::string value;
  std::string remark;
};

struct Section {
  std::string name;
  std::vector<Entry> entries;
};

std::string as_table(const std::vector<Section>& sections);
std::string as_json(const std::vector<Section>& sections);
// An array, in order.
std::string as_json(const std::vector<shared::Finding>& findings);

}  // namespace info
