#pragma once

// The layout of a run that takes least time, of all that fit into memory.

#include <map>
#include <string>
#include <vector>

#include "tessera/config/config.h"
#include "tessera/config/issue.h"
#include "tessera/planner/machine/machine.h"
#include "tessera/planner/model_units.h"
#include "tessera/planner/search/layout_choice.h"
#include "tessera/planner/seconds/seconds_plan.h"

namespace tessera {

struct SearchOptions {
  int64_t world = 1;
  double memory = 0.0;  // bytes of a rank; 0: the machine's, or no limit
  bool processes = false;
  bool list_legal = false;  // keeps every legal choice, whatever its memory and time
  int threads = 2;
  Provenance provenance;  // of the file, for rules that ask what was given
};

/// A choice that was planned in full.
struct FoundLayout {
  LayoutChoice choice;
  SecondsPlan seconds;
  double memory = 0.0;  // bytes of the rank with most
};

/// Why a layout beside the best one was not taken.
struct Neighbour {
  LayoutChoice choice;
  std::string reason;
};

struct SearchResult {
  std::vector<FoundLayout> best;    // at most ten, the fastest first
  std::vector<FoundLayout> front;   // no other that was planned needs less memory and less time
  std::vector<Neighbour> others;    // that differ from the best in one choice
  std::string limit;                // what the best one spends its time on beside products
  int64_t tried = 0;                // choices
  int64_t bounded = 0;              // of them left out by their bounds of time or memory
  int64_t planned = 0;              // in full
  std::vector<LayoutChoice> legal;  // with list_legal
};

/// Bytes of the rank that needs most.
double peak_memory(const Config& config, int64_t world, bool processes);
/// The same; `units` are model_units(config.model).
double peak_memory(const Config& config, const std::vector<ModelUnit>& units, int64_t world,
                   bool processes);

/// Bytes that a rank of `world` may use, by the options, else by the machine.
double memory_limit(const Machine& machine, const SearchOptions& options, int64_t world);

/// Throws ConfigError when there is no legal layout that fits: with the rule or the memory in the
/// way and the smallest change that helps.
SearchResult search_layouts(const Config& config, const Machine& machine,
                            const SearchOptions& options);

/// `config` with a layout that the search found.
Config found_config(const Config& config, const LayoutChoice& choice, const Machine& machine);

}  // namespace tessera
