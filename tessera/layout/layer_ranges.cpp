#include "tessera/layout/layer_ranges.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "tessera/base/error.h"

namespace tessera {
namespace {

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return "";
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t start = 0;;) {
    const size_t end = text.find(separator, start);
    parts.push_back(text.substr(start, end - start));
    if (end == std::string_view::npos) return parts;
    start = end + 1;
  }
}

std::optional<int64_t> parse_layer(std::string_view text) {
  text = trim(text);
  int64_t layer = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), layer);
  if (error != std::errc() || end != text.data() + text.size() || layer < 0) return std::nullopt;
  return layer;
}

std::string quoted(std::string_view text) { return '"' + std::string(text) + '"'; }

std::string layer_list(int64_t first, int64_t last) {
  if (first == last) return "layer " + std::to_string(first);
  return "layers " + std::to_string(first) + "-" + std::to_string(last);
}

// "n" or "a-b". What is wrong is written to `problem`.
std::optional<LayerRange> parse_range(std::string_view text, std::string& problem) {
  const std::vector<std::string_view> ends = split(text, '-');
  const std::string shown = quoted(trim(text));
  if (ends.size() > 2) {
    problem = shown + " has more than one dash; a range is n or a-b";
    return std::nullopt;
  }
  const auto first = parse_layer(ends.front());
  const auto last = parse_layer(ends.back());
  if (!first || !last) {
    problem = shown + " is no range; a range is n or a-b";
    return std::nullopt;
  }
  if (*first > *last) {
    problem = shown + " starts after its end";
    return std::nullopt;
  }
  return LayerRange{*first, *last};
}

std::string range_text(const LayerRange& range) {
  if (range.first == range.last) return std::to_string(range.first);
  return std::to_string(range.first) + "-" + std::to_string(range.last);
}

std::string pasteable(const std::vector<std::string>& entries) {
  std::string out = "[";
  for (const std::string& entry : entries) out += (out.size() > 1 ? ", " : "") + quoted(entry);
  return out + "]";
}

// Lengths of the virtual stages that make the physical ones as even as they get. Layers left over
// go to the outer ends: stages of the first half take theirs early, the others late.
std::vector<int64_t> balanced_lengths(int64_t layers, int64_t stages, int64_t chunks) {
  const int64_t all = stages * chunks;
  std::vector<int64_t> lengths(all, layers / all);
  const int64_t extra = layers % all;
  for (int64_t i = 0; i < stages; ++i) {
    const int64_t mine = extra / stages + (i < extra % stages ? 1 : 0);
    for (int64_t k = 0; k < mine; ++k) {
      const int64_t chunk = 2 * i < stages ? k : chunks - 1 - k;
      lengths[chunk * stages + i] += 1;
    }
  }
  return lengths;
}

LayerPlacement place(const std::vector<int64_t>& lengths, int64_t stages, int64_t chunks) {
  LayerPlacement placement(stages, std::vector<LayerRange>(chunks));
  int64_t next = 0;
  for (int64_t q = 0; q < stages * chunks; ++q) {
    placement[q % stages][q / stages] = {next, next + lengths[q] - 1};
    next += lengths[q];
  }
  return placement;
}

// The ranges in the order of the virtual stages must be 0, 1, ..., layers - 1.
void check_cover(const LayerPlacement& placement, int64_t layers, int64_t stages, int64_t chunks,
                 std::vector<LayerProblem>& problems) {
  int64_t next = 0;
  for (int64_t q = 0; q < stages * chunks; ++q) {
    const int64_t stage = q % stages;
    const LayerRange& range = placement[stage][q / stages];
    const std::string where =
        "range " + std::to_string(q / stages) + " (" + range_text(range) + ") ";
    if (range.last >= layers) {
      problems.push_back(
          {stage, where + "goes beyond the last layer, " + std::to_string(layers - 1)});
    } else if (range.first > next) {
      problems.push_back({stage, layer_list(next, range.first - 1) + " missing before " + where +
                                     "of virtual stage " + std::to_string(q)});
    } else if (range.first < next) {
      problems.push_back({stage, where + "of virtual stage " + std::to_string(q) +
                                     " overlaps or precedes the one before, which ends at layer " +
                                     std::to_string(next - 1)});
    }
    next = std::max(next, range.last + 1);
  }
  if (next < layers) {
    problems.push_back({-1, layer_list(next, layers - 1) + " missing at the end"});
  }
}

}  // namespace

std::vector<std::string> balanced_layers(int64_t layers, int64_t stages, int64_t chunks) {
  TESSERA_CHECK(layers >= stages * chunks, layers, " layers");
  const LayerPlacement placement = place(balanced_lengths(layers, stages, chunks), stages, chunks);
  std::vector<std::string> entries;
  for (const std::vector<LayerRange>& ranges : placement) {
    std::string entry;
    for (const LayerRange& range : ranges) entry += (entry.empty() ? "" : ", ") + range_text(range);
    entries.push_back(entry);
  }
  return entries;
}

LayerPlacement place_layers(const LayersPerStage& asked, int64_t layers, int64_t stages,
                            int64_t chunks, std::vector<LayerProblem>& problems) {
  const int64_t all = stages * chunks;
  const size_t before = problems.size();
  if (layers < all) {
    problems.push_back({-1, std::to_string(layers) + " layers cannot fill " +
                                std::to_string(stages) + " stages of " + std::to_string(chunks) +
                                " chunk(s)"});
    return {};
  }
  if (asked.is_auto) {
    if (layers % all != 0) {
      problems.push_back({-1, std::to_string(layers) + " layers do not divide by " +
                                  std::to_string(all) + " = " + std::to_string(stages) +
                                  " stages x " + std::to_string(chunks) +
                                  " chunk(s); give a list, for example " +
                                  pasteable(balanced_layers(layers, stages, chunks))});
      return {};
    }
    return place(std::vector<int64_t>(all, layers / all), stages, chunks);
  }
  if (static_cast<int64_t>(asked.stages.size()) != stages) {
    problems.push_back({-1, "has " + std::to_string(asked.stages.size()) + " entries for " +
                                std::to_string(stages) + " stages; for example " +
                                pasteable(balanced_layers(layers, stages, chunks))});
    return {};
  }
  LayerPlacement placement(stages);
  for (int64_t stage = 0; stage < stages; ++stage) {
    const std::vector<std::string_view> parts = split(asked.stages[stage], ',');
    if (static_cast<int64_t>(parts.size()) != chunks) {
      problems.push_back({stage, "has " + std::to_string(parts.size()) + " range(s); " +
                                     std::to_string(chunks) +
                                     " (pipeline_parallel_interleave_num) needed"});
      continue;
    }
    for (const std::string_view part : parts) {
      std::string problem;
      if (const auto range = parse_range(part, problem)) {
        placement[stage].push_back(*range);
      } else {
        problems.push_back({stage, problem});
      }
    }
  }
  if (problems.size() == before) check_cover(placement, layers, stages, chunks, problems);
  return placement;
}

LayerPlacement place_layers(const Config& config) {
  const ParallelismConfig& parallelism = config.parallelism;
  const int64_t layers = config.model.num_hidden_layers;
  if (parallelism.pipeline_parallel == 1) return {{LayerRange{0, layers - 1}}};
  std::vector<LayerProblem> problems;
  const LayerPlacement placement = place_layers(
      parallelism.pipeline_parallel_layers_per_stage.value_or(LayersPerStage{true, {}}), layers,
      parallelism.pipeline_parallel, parallelism.pipeline_parallel_interleave_num, problems);
  if (!problems.empty()) {
    throw ConfigError("parallelism.pipeline_parallel_layers_per_stage: " + problems.front().rule);
  }
  return placement;
}

std::vector<LayerRange> parse_layer_specs(const std::vector<std::string>& specs, int64_t layers,
                                          std::string& problem) {
  std::vector<LayerRange> ranges;
  for (const std::string& spec : specs) {
    const auto range = parse_range(spec, problem);
    if (!range) return {};
    if (!ranges.empty() && range->first <= ranges.back().last) {
      problem = quoted(spec) + " must come after " + quoted(range_text(ranges.back())) +
                "; specs ascend and do not overlap";
      return {};
    }
    if (range->last >= layers) {
      problem = quoted(spec) + " goes beyond the last layer, " + std::to_string(layers - 1);
      return {};
    }
    ranges.push_back(*range);
  }
  return ranges;
}

}  // namespace tessera
