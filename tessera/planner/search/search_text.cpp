#include "tessera/planner/search/search_text.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/layout/axis.h"
#include "tessera/planner/bytes_text.h"
#include "tessera/planner/seconds/seconds_text.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

std::string line(const FoundLayout& found) {
  return fmt::format("{:>10}{:>13.4g}{:>7.1f}%{:>10}  {}\n", seconds_text(found.seconds.step),
                     found.seconds.tokens_per_second, 100 * found.seconds.mfu,
                     bytes_text(static_cast<int64_t>(found.memory)), to_text(found.choice));
}

Json choice_json(const LayoutChoice& c) {
  constexpr std::array<const char*, 3> kRecompute = {"none", "half", "all"};
  const auto axis = [](Axis of) { return std::string(axis_name(of)); };
  return {{axis(Axis::kPp), c.pp},
          {"chunks", c.chunks},
          {axis(Axis::kTp), c.tp},
          {axis(Axis::kCp), c.cp},
          {"method", c.method},
          {"ulysses", c.method == "hybrid" ? c.ulysses : 1},
          {axis(Axis::kEp), c.ep},
          {"by_node", c.by_node},
          {axis(Axis::kDpReplicate), c.dp_replicate()},
          {axis(Axis::kDpShard), c.dp_shard},
          {"local_batch", c.local_batch},
          {"recompute", kRecompute[static_cast<size_t>(c.recompute)]},
          {"reshard", c.reshard},
          {"light_ends", c.light_ends}};
}

Json found_json(const FoundLayout& found) {
  return {{"layout", choice_json(found.choice)},
          {"memory", found.memory},
          {"seconds", Json::parse(to_json(found.seconds))}};
}

}  // namespace

std::string to_text(const SearchResult& result) {
  const std::string head =
      fmt::format("{:>10}{:>13}{:>8}{:>10}  layout\n", "step", "tokens/s", "MFU", "memory");
  std::string text = fmt::format(
      "{} layouts tried, {} planned in full, {} left out by their bounds; by {}\n\nfastest\n{}",
      result.tried, result.planned, result.bounded, result.best.front().seconds.machine, head);
  for (const FoundLayout& found : result.best) text += line(found);
  if (result.front.size() > 1) {
    text += "\nless memory for more time\n" + head;
    for (const FoundLayout& found : result.front) text += line(found);
  }
  text += "\nthe fastest: " + result.limit + "\n";
  if (!result.others.empty()) text += "\nbeside it\n";
  for (const Neighbour& other : result.others) {
    text += fmt::format("  {}: {}\n", to_text(other.choice), other.reason);
  }
  return text;
}

std::string to_json(const SearchResult& result) {
  Json json = {{"tried", result.tried},
               {"bounded", result.bounded},
               {"planned", result.planned},
               {"limit", result.limit}};
  for (const FoundLayout& found : result.best) json["best"].push_back(found_json(found));
  for (const FoundLayout& found : result.front) json["front"].push_back(found_json(found));
  for (const Neighbour& other : result.others) {
    json["others"].push_back({{"layout", choice_json(other.choice)}, {"reason", other.reason}});
  }
  for (const LayoutChoice& choice : result.legal) json["legal"].push_back(choice_json(choice));
  return json.dump(1) + "\n";
}

double bytes_of_flag(const std::string& flag, const std::string& text) {
  constexpr std::array<std::pair<const char*, double>, 8> kUnits = {{{"", 1},
                                                                     {"B", 1},
                                                                     {"MB", 1e6},
                                                                     {"GB", 1e9},
                                                                     {"TB", 1e12},
                                                                     {"MiB", 1048576.0},
                                                                     {"GiB", 1073741824.0},
                                                                     {"TiB", 1099511627776.0}}};
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  for (const auto& [unit, factor] : kUnits) {
    if (end == text.c_str() || !std::isfinite(number) || number <= 0) break;
    if (std::string(end) == unit) return number * factor;
  }
  throw ConfigError(flag + "=" + text +
                    ": must be a number of bytes above 0, as 80GiB, 80GB or 8e10");
}

}  // namespace tessera
