#include "tessera/launcher/restarts.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace tessera {
namespace {

using nlohmann::json;

constexpr int kMostInVain = 3;
constexpr std::chrono::hours kHour{1};
constexpr size_t kLongestCause = 300;
constexpr int kProgramMissing = 127;

std::string dumped(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

json to_json(const Restart& restart) {
  return {{"generation", restart.generation},
          {"cause", restart.cause.substr(0, kLongestCause)},
          {"rank", restart.rank},
          {"exit_code", restart.exit_code},
          {"reached", restart.reached},
          {"failed_at", restart.failed_at}};
}

}  // namespace

int64_t Restart::steps_lost() const {
  return first_step > 0 ? std::max<int64_t>(0, reached - (first_step - 1)) : 0;
}

double Restart::seconds() const {
  return first_step > 0 ? std::max(0.0, going_on_at - failed_at) : 0.0;
}

double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string json_line(const Restart& restart, int64_t samples) {
  return dumped({{"restart", restart.generation},
                 {"cause", restart.cause},
                 {"rank", restart.rank},
                 {"exit_code", restart.exit_code},
                 {"steps_finished", restart.reached},
                 {"steps_lost", restart.steps_lost()},
                 {"seconds", restart.seconds()}})
      .insert(1, "\"samples\": " + std::to_string(samples) + ", ");
}

std::string to_text(const std::vector<Restart>& restarts) {
  json list = json::array();
  for (const Restart& restart : restarts) list.push_back(to_json(restart));
  return dumped(list);
}

std::vector<Restart> restarts_of(const Environment& environment) {
  std::vector<Restart> restarts;
  const json list = json::parse(environment(kRestartsVariable).value_or(""), nullptr, false);
  if (!list.is_array()) return restarts;
  for (const json& item : list) {
    try {
      Restart restart;
      restart.generation = item.at("generation").get<int64_t>();
      restart.cause = item.at("cause").get<std::string>();
      restart.rank = item.at("rank").get<int>();
      restart.exit_code = item.at("exit_code").get<int>();
      restart.reached = item.at("reached").get<int64_t>();
      restart.failed_at = item.at("failed_at").get<double>();
      restarts.push_back(std::move(restart));
    } catch (const json::exception&) {  // of another version: it costs a line
    }
  }
  return restarts;
}

std::string report(const std::vector<Restart>& restarts) {
  if (restarts.empty()) return "";
  std::string text =
      std::to_string(restarts.size()) + (restarts.size() == 1 ? " restart:" : " restarts:");
  for (const Restart& restart : restarts) {
    text += "\n  start " + std::to_string(restart.generation) + ": " + restart.cause + "; ";
    if (restart.first_step == 0) {
      text += "no step was finished after it";
      continue;
    }
    char cost[96];
    std::snprintf(cost, sizeof cost, "went on with step %ld after %.1f s, %ld steps lost",
                  static_cast<long>(restart.first_step), restart.seconds(),
                  static_cast<long>(restart.steps_lost()));
    text += cost;
  }
  return text;
}

bool may_start_again(int exit_code) {
  switch (exit_code) {
    case 0:
    case 2:
    case 5:
    case 6:
    case kProgramMissing: return false;
    default: return exit_code > 0 && exit_code <= 128;
  }
}

std::string RestartLimit::refusal(Clock::time_point now) {
  while (!times_.empty() && now - times_.front() >= kHour) times_.pop_front();
  if (in_vain_ >= kMostInVain) {
    return "it was started again " + std::to_string(in_vain_) +
           " times without a finished step in between";
  }
  if (static_cast<int>(times_.size()) >= per_hour_) {
    return "it was started again " + std::to_string(times_.size()) +
           " times within an hour (--max_restarts)";
  }
  ++in_vain_;
  times_.push_back(now);
  return "";
}

}  // namespace tessera
