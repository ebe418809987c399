#include "tessera/launcher/blame.h"

#include <string.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tessera {
namespace {

using nlohmann::json;

constexpr int kLostPeer = 3;  // the exit code of a rank that lost a peer or a link
constexpr size_t kLongestLine = 300;
constexpr size_t kMostOthers = 16;

// Whether the rank would go on if its peer came: then the peer is asked.
bool waits_for_another(const RankState& state) {
  if (state.waits.empty()) return false;
  return state.life == RankState::Life::kRunning ||
         (state.life == RankState::Life::kEnded && state.number == kLostPeer);
}

std::string in_step(const RankState& state) {
  return state.step > 0 ? " in step " + std::to_string(state.step) : "";
}

}  // namespace

Blame follow_waits(const RankStates& states, int first) {
  Blame blame;
  int rank = first;
  while (true) {
    const auto seen = std::ranges::find(blame.chain, rank);
    if (seen != blame.chain.end()) {
      blame.circle = true;
      blame.chain.erase(blame.chain.begin(), seen);
      rank = *std::ranges::min_element(blame.chain);
      break;
    }
    blame.chain.push_back(rank);
    const auto state = states.find(rank);
    if (state == states.end() || !waits_for_another(state->second)) break;
    rank = state->second.waits.front().peer;
  }
  blame.rank = rank;
  blame.known = states.contains(rank);
  return blame;
}

std::string life_text(const RankState& state) {
  const std::string step = in_step(state);
  switch (state.life) {
    case RankState::Life::kKilled:
      return "was killed by signal " + std::to_string(state.number) + " (" +
             ::strsignal(state.number) + ")" + step;
    case RankState::Life::kStopped: return "is stopped by a signal or a debugger" + step;
    case RankState::Life::kEnded:
      return "ended with exit code " + std::to_string(state.number) + step;
    case RankState::Life::kRunning: break;
  }
  const std::string work = state.work.empty() ? "runs" : state.work;
  return work + step + ", waits for nobody and does not answer";
}

std::string others_text(const RankStates& states, int named) {
  std::string text;
  size_t shown = 0;
  size_t more = 0;
  for (const auto& [rank, state] : states) {
    const bool failed = state.life != RankState::Life::kRunning && state.number != 0;
    if (rank == named || (state.waits.empty() && !failed)) continue;
    if (shown == kMostOthers) {
      ++more;
      continue;
    }
    ++shown;
    text += "\nrank " + std::to_string(rank) + in_step(state);
    if (!state.waits.empty()) {
      const RankWait& wait = state.waits.front();
      text += " waited for rank " + std::to_string(wait.peer) + ": " + wait.what;
    }
    if (!state.last_line.empty()) text += "; its last line: " + state.last_line;
  }
  if (more > 0) text += "\nand " + std::to_string(more) + " more ranks";
  return text;
}

json to_json(const RankStates& states) {
  json list = json::array();
  for (const auto& [rank, state] : states) {
    json waits = json::array();
    for (const RankWait& wait : state.waits) waits.push_back({wait.peer, wait.what});
    list.push_back({{"rank", rank},
                    {"life", static_cast<int>(state.life)},
                    {"number", state.number},
                    {"step", state.step},
                    {"work", state.work},
                    {"waits", waits},
                    {"last_line", state.last_line.substr(0, kLongestLine)}});
  }
  return list;
}

RankStates rank_states(const json& list) {
  RankStates states;
  if (!list.is_array()) return states;
  for (const json& entry : list) {
    try {
      RankState state;
      const int life = entry.at("life").get<int>();
      if (life < 0 || life > static_cast<int>(RankState::Life::kKilled)) continue;
      state.life = static_cast<RankState::Life>(life);
      state.number = entry.at("number").get<int>();
      state.step = entry.at("step").get<int64_t>();
      state.work = entry.value("work", "").substr(0, kLongestLine);
      state.last_line = entry.at("last_line").get<std::string>().substr(0, kLongestLine);
      for (const json& wait : entry.at("waits")) {
        state.waits.push_back({wait.at(0).get<int>(), wait.at(1).get<std::string>()});
      }
      states[entry.at("rank").get<int>()] = std::move(state);
    } catch (const json::exception&) {
      continue;
    }
  }
  return states;
}

}  // namespace tessera
