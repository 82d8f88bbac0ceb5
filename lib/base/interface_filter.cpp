#include "base/interface_filter.h"

#include "base/network_interfaces.h"
#include "base/text.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <optional>

#include <arpa/inet.h>

namespace anello {
namespace {

struct Ip {
  unsigned char bytes[16];
  int bits;  // 32, 128
};

// The scope of an IPv6 address says nothing about its network.
std::optional<Ip> parse_ip(std::string_view word) {
  const std::string text(word.substr(0, word.find('%')));
  Ip ip{};
  if (::inet_pton(AF_INET, text.c_str(), ip.bytes) == 1) return ip.bits = 32, ip;
  if (::inet_pton(AF_INET6, text.c_str(), ip.bytes) == 1) return ip.bits = 128, ip;
  return std::nullopt;
}

// Of a network, or of a single address, whose prefix is all of it. Nothing: it is not a number that there can be.
std::optional<int> prefix_length(std::string_view network, int most) {
  const std::size_t slash = network.find('/');
  if (slash == std::string_view::npos) return most;
  const std::string_view digits = network.substr(slash + 1);
  int bits = 0;
  const auto [stop, wrong] = std::from_chars(digits.data(), digits.data() + digits.size(), bits);
  if (wrong != std::errc{} || stop != digits.data() + digits.size() || bits < 0 || bits > most) return std::nullopt;
  return bits;
}

bool in_network(std::string_view network, std::string_view address) {
  const std::optional<Ip> base = parse_ip(network.substr(0, network.find('/'))), ip = parse_ip(address);
  if (!base || !ip || base->bits != ip->bits) return false;
  const std::optional<int> bits = prefix_length(network, base->bits);
  if (!bits) return false;
  const int whole = *bits / 8, rest = *bits % 8;
  if (std::memcmp(base->bytes, ip->bytes, static_cast<std::size_t>(whole)) != 0) return false;
  const auto mask = static_cast<unsigned char>(0xff << (8 - rest));
  return rest == 0 || (base->bytes[whole] & mask) == (ip->bytes[whole] & mask);
}

}  // namespace

bool is_address(std::string_view word) { return parse_ip(word).has_value(); }

InterfaceFilter::InterfaceFilter(std::string_view words) {
  const auto begins_with = [&words](char sign) {
    if (words.empty() || words.front() != sign) return false;
    words.remove_prefix(1);
    return true;
  };
  all_but_ = begins_with('^');
  whole_names_ = begins_with('=');
  while (!words.empty()) {
    const std::size_t comma = std::min(words.find(','), words.size());
    if (comma > 0) words_.emplace_back(words.substr(0, comma));
    words.remove_prefix(std::min(comma + 1, words.size()));
  }
}

bool InterfaceFilter::word_matches(const std::string& word, std::string_view name, std::string_view ip) const {
  return in_network(word, ip) || (whole_names_ ? name == word : name.substr(0, word.size()) == word);
}

bool InterfaceFilter::one_matches(std::string_view name, std::string_view ip) const {
  return std::any_of(words_.begin(), words_.end(),
                     [&](const std::string& word) { return word_matches(word, name, ip); });
}

bool InterfaceFilter::matches(std::string_view name, std::string_view ip) const {
  return words_.empty() || one_matches(name, ip) != all_but_;
}

bool InterfaceFilter::names(std::string_view name, std::string_view ip) const {
  return !all_but_ && std::any_of(words_.begin(), words_.end(), [&](const std::string& word) {
    return name == word || (word.find('/') == std::string::npos && in_network(word, ip));
  });
}

std::string InterfaceFilter::fault() const {
  for (const std::string& word : words_) {
    const std::size_t slash = word.find('/');
    if (slash == std::string::npos) continue;  // a name, or an address
    const std::optional<Ip> base = parse_ip(std::string_view(word).substr(0, slash));
    if (!base) return text(word, " is not a network such as 10.1.0.0/16 or fd00::/8");
    if (!prefix_length(word, base->bits))
      return text("the prefix length of ", word, " is not a number from 0 to ", base->bits);
  }
  return {};
}

std::vector<std::string> InterfaceFilter::idle_words(const std::vector<NetworkInterface>& among) const {
  std::vector<std::string> idle;
  for (const std::string& word : words_) {
    const auto meant = [&](const NetworkInterface& each) { return word_matches(word, each.name, each.ip); };
    if (!all_but_ && std::none_of(among.begin(), among.end(), meant)) idle.push_back(word);
  }
  return idle;
}

std::string means_none(const std::string& variable, const std::string& value,
                       const std::vector<NetworkInterface>& among) {
  const std::string fault = InterfaceFilter(value).fault();
  const char* const why = value.rfind('^', 0) == 0 ? "no interface is left" : "no interface has this name or address";
  return text(variable, "=", value, ": ", fault.empty() ? why : fault, "; there are ", listed(among));
}

}  // namespace anello
