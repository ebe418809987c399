#pragma once

#include <string>

#include "tessera/planner/seconds/seconds_plan.h"

namespace tessera {

/// "1.23 ms", "4.56 s", "2 h 5 min", "3.1 days".
std::string seconds_text(double seconds);

/// Lines of a plan: the step, and where its time goes on every stage.
std::string to_text(const SecondsPlan& plan);

/// The same and all numbers, as a JSON object in text.
std::string to_json(const SecondsPlan& plan);

}  // namespace tessera
