#pragma once

// Which rank holds a run up. All ranks that wait say for whom; the chain of waits leads to the one
// that waits for nobody.

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tessera/launcher/rank_page.h"

namespace tessera {

/// What a launcher knows of one of its ranks.
struct RankState {
  enum class Life { kRunning, kStopped, kEnded, kKilled };

  Life life = Life::kRunning;
  int number = 0;               // the exit code, or the signal that killed it
  int64_t step = 0;             // 0: before the first step, or not known
  std::string work;             // "reads its batch": what it does, where it says so
  std::vector<RankWait> waits;  // the oldest first
  std::string last_line;        // of its log: an error, where there is one
  std::string node;             // "node 1", of a rank of another launcher
};

using RankStates = std::map<int, RankState>;  // by rank of the world

struct Blame {
  int rank = -1;           // the one to name
  bool known = false;      // whether anything is known of it
  std::vector<int> chain;  // of waits, from the rank where the search began to `rank`
  bool circle = false;     // the ranks of the chain wait for each other
};

/// Follows the waits from rank `first`.
Blame follow_waits(const RankStates& states, int first);

/// "is stopped by a signal (state T) in step 7", without the name of the rank.
std::string life_text(const RankState& state);

/// One line for each other rank that waits or failed: whom it waits for, and what it said last.
std::string others_text(const RankStates& states, int named);

nlohmann::json to_json(const RankStates& states);
/// Of what another launcher sent; what is wrong in it is left out.
RankStates rank_states(const nlohmann::json& list);

}  // namespace tessera
